"""From a Python signature to JSON Schema and back: what is advertised, what is accepted, what is returned."""
