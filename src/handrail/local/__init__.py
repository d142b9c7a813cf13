"""The embedded model behind ``Agent("local")``: a tiny tool-calling model that needs no key and no network.

    files    where the engine's two files are, and what they must hash to
    worker   the process that the engine lives in; runs alone, and is never imported
    engine   one worker, one lock, a deadline for every turn
    prompt   tools and requests in the short form that the engine reads best
    render   the final answer, out of tool results
    model    the adapter to ``pydantic_ai``, the only module here that imports it

Nothing is imported here: ``import handrail.local`` costs nothing, whether or not the extra is installed.
"""
