"""Finds files that one query of a job deletes or moves while another one reads them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.sources.known_sources import cleaner_of, share_items


def input_cleaned_under_others(
    query: str, candidate: Mapping[str, Manifest], deployed: Mapping[str, Manifest]
) -> Iterator[Finding]:
    """Yield a finding for each location where this query deletes or moves files that another query reads.

    The finding is a note if the deployed release of this query already deletes or moves files at that location and the
    same other query already reads them. Otherwise it is fatal.
    """
    served = _cleaned_under(query, deployed)
    for (location, other), cleaner in _cleaned_under(query, candidate).items():
        yield Finding(
            rule="input-cleaned-under-another-query",
            severity=Severity.NOTE if (location, other) in served else Severity.FATAL,
            where=f"source {location}",
            evidence=f"cleanSource={cleaner}, and query {other} reads the same files",
            hint="leave cleanSource off where several queries read one directory",
        )


def _cleaned_under(query: str, manifests: Mapping[str, Manifest]) -> dict[tuple[str, str], str]:
    """Return a map from (location, other query) to the mode of this query's cleaner at that location."""
    found = {}
    for source in manifests[query].sources if query in manifests else ():
        for other, manifest in manifests.items():
            shared = any(share_items(each, source) for each in manifest.sources)
            if shared and other != query and (cleaner := cleaner_of(source)):
                found[source.location, other] = cleaner
    return found
