"""The declarations of a release and the values that a check compares: manifests, params, findings."""
