"""What a line of the log is about, as fields of its own beside the text."""

from firesteel.model.ids import JobID


def about(job_id: JobID, vertex: str = "", attempt: int | None = None) -> dict[str, object]:
    """The `extra` of a line about a job, or about an attempt of one of its regions, counted from 0."""
    named: dict[str, object] = {"job": job_id}
    if vertex:
        named["vertex"] = vertex
    if attempt is not None:
        named["attempt"] = attempt
    return named
