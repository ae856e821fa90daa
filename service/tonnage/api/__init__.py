"""The HTTP surface: thin controllers over `plans` and `catalog`, problem details, keys, paging."""
