"""Places outside the job that a source reads, by its plan: files, topics and tables that its readers name, with columns.

What stands in SQL text, and what views are made of, only Spark knows; it is not asked for this.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from firesteel.adapters.spark.internals import reads, relation_of
from firesteel.adapters.spark.session.columns import columns_at, columns_declared
from firesteel.model.tasks import Columns

PLACES_MAX = 20
"""Places of one function that are told."""
_FILES_AS_TABLE = re.compile(r"\w+\.`(?P<path>[^`]*/[^`]*)`")


def places_of(frame: Any, client: Any, views: Collection[str]) -> dict[str, Columns]:
    """Places that a DataFrame is read from: paths and URIs as Spark has them, `kafka://SERVER/TOPIC`, `URL TABLE` of JDBC,
    and tables by name, but for `views`, which are the session's own (in lower case). With the columns of each, where they
    are declared, or those of Parquet files here."""
    found: dict[str, Columns] = {}
    for read in reads(relation_of(frame, client)):
        places = [place for place in _places(read) if place.lower() not in views and place not in found]
        places = places[: PLACES_MAX - len(found)]
        if places:
            found.update(dict.fromkeys(places, _columns(read, places[0])))
    return found


def _columns(read: Any, place: str) -> Columns:
    source = read.data_source
    if source.schema:
        return columns_declared(source.schema)
    if source.format == "text":
        return (("value", "string"),)
    return columns_at(place.removeprefix("file:")) if source.format == "parquet" else ()


def _places(read: Any) -> Iterator[str]:
    if read.HasField("named_table"):
        name = read.named_table.unparsed_identifier
        as_files = _FILES_AS_TABLE.fullmatch(name)
        yield as_files["path"] if as_files else name
        return
    source = read.data_source
    options = {name.lower(): value for name, value in source.options.items()}
    yield from source.paths
    if "path" in options:
        yield options["path"]
    if "dbtable" in options:
        yield f"{options.get('url', '').partition('?')[0]} {options['dbtable']}"
    if "subscribe" in options:
        server = options.get("kafka.bootstrap.servers", "").split(",")[0].strip()
        yield from (f"kafka://{server}/{topic.strip()}" for topic in options["subscribe"].split(","))
