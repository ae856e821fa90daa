"""How much memory each part takes, on each rank."""
