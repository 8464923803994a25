"""What a release declares and a check compares: manifests, params, findings."""
