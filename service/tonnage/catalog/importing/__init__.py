"""Models from the configuration files of model repositories."""

from .huggingface import architecture_from_config
from .number_formats import checkpoint_format_from_config

__all__ = ["architecture_from_config", "checkpoint_format_from_config"]
