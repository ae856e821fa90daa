"""Questions and answers: a request against a release, resolved, estimated and explained."""
