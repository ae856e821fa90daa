"""The pure part: memory arithmetic of models on accelerators, from values alone.

Nothing here reads a database, clock, environment, file or network; an import contract keeps it so.
Bytes are integers, GB is 10⁹ and GiB is 2³⁰.
"""
