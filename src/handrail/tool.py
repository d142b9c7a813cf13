from handrail.tools import *  # noqa: F403
from handrail.tools import CancelToken, Tool, parts_of  # noqa: F401
