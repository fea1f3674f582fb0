"""Bodies about files that are uploaded to be run. Flink calls them jars."""

import msgspec


class JarUploadResponseBody(msgspec.Struct, frozen=True):
    filename: str
    """Name whose last part is the id of the file."""
    status: str = "success"


class JarEntryInfo(msgspec.Struct, frozen=True):
    name: str
    """Name that `entryClass` may say to choose it."""
    description: str | None = None


class JarFileInfo(msgspec.Struct, frozen=True):
    id: str
    name: str
    uploaded: int
    entry: list[JarEntryInfo]


class JarListInfo(msgspec.Struct, frozen=True):
    address: str
    files: list[JarFileInfo]


class JarRunRequestBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Settings for running a file. What is absent here may be said by query parameters."""

    entry_class: str | None = None
    """Pipeline to run: `MODULE`, `MODULE:NAME`, or of a Python file just `NAME`."""
    program_args_list: list[str] | None = None
    """Job parameters, each as `name=value`, or as `--name` and `value`; of a plain script, its arguments."""
    program_args: str | None = None
    """Arguments as one text, as Flink's dashboard sends them; quotes hold words together."""
    parallelism: int | str | None = None
    """Flink's dashboard sends it as text."""
    job_id: str | None = None
    flink_configuration: dict[str, str] | None = None
    overrides: dict[str, str] | None = None
    """Options of functions, by `FUNCTION.OPTION`."""
    savepoint_path: str | None = None
    """The savepoint that a streaming job starts from. Without one, the next three mean nothing."""
    allow_non_restored_state: bool | None = None
    claim_mode: str | None = None
    """`NO_CLAIM`: the job leaves the savepoint as it is. `CLAIM`: it is the job's from here on, which disposes of it."""
    restore_mode: str | None = None
    """Its name in Flink before."""


class JarRunResponseBody(msgspec.Struct, frozen=True):
    jobid: str
    application_id: str = msgspec.field(name="applicationId")


class JarRunApplicationResponseBody(msgspec.Struct, frozen=True):
    applicationid: str
