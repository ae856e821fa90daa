"""The versioned catalog: models, accelerators, machines, prices and runtimes, release by release.

A release is an immutable, numbered state of all records. Records are rows valid from one release up
to another, so nothing is updated in place, and any release can be read again.
"""
