"""One file for each runtime's own accounting: what it counts, in which order, from which total."""
