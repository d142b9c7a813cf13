"""``python -m handrail.cli``, for where the ``handrail`` command is not on the path."""

from handrail.cli import main

main()
