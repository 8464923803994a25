"""The records of jobs: journal, control folders, bundles and other objects, in any kind of store."""
