"""Programs that maintain the repository: generated docs, page assets. They are not part of the package."""
