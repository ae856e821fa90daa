"""Tonnage plans GPU capacity for AI: will it fit, how to split it, how fast, at what cost."""

__version__ = "0.1.0"

ENGINE_VERSION = "0.1.0"
"""Raised with every change that can change an answer; answers name it."""
