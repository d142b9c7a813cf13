"""Handrail: tools that LLM agents can be trusted with."""
