"""Measurements of speed, and the scripts that fit the engine's constants."""
