"""Configuration of a command: conf/config.yaml, then -D on top; and parameters."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from firesteel.cli.exits import BAD_USAGE, CommandError
from firesteel.model.options import REST_ADDRESS, Configuration, ConfigurationError

CONF_DIR_VARIABLE = "FIRESTEEL_CONF_DIR"
CONF_FILE = "config.yaml"


def load_configuration(definitions: Sequence[str], master: str = "") -> Configuration:
    """The configuration file's values with `key=value` definitions and masters' addresses on top. Raises CommandError."""
    file = _configuration_file()
    values = read_yaml(file) if file else {}
    try:
        base = Configuration(values)
    except ConfigurationError as error:
        raise CommandError(f"{file}: {error}", BAD_USAGE) from None
    try:
        return base.merged(pairs(definitions, "-D")).merged({REST_ADDRESS.key: master} if master else {})
    except ConfigurationError as error:
        raise CommandError(str(error), BAD_USAGE) from None


def pairs(definitions: Sequence[str], option: str) -> dict[str, str]:
    """Texts `key=value` as a dict. Raises CommandError for what is none, or comes twice."""
    values: dict[str, str] = {}
    for definition in definitions:
        key, sign, value = definition.partition("=")
        if not sign or not key.strip():
            raise CommandError(f"{option} {definition}: write {option} key=value", BAD_USAGE)
        if key.strip() in values:
            raise CommandError(f"{option} {key.strip()} is given twice", BAD_USAGE)
        values[key.strip()] = value
    return values


def named_values(given: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """`--param` options: values by name, and the names that stand alone. Raises CommandError for what comes twice."""
    flags = [each.strip() for each in given if each.strip().isidentifier()]
    values = pairs([each for each in given if each.strip() not in flags], "--param")
    for name in flags:
        if name in values or flags.count(name) > 1:
            raise CommandError(f"--param {name} is given twice", BAD_USAGE)
    return values, tuple(flags)


def read_yaml(file: Path) -> dict[str, str]:
    """Values by full key of a file with nested or flat keys. Raises CommandError naming file and key."""
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"can't read {file}: {error}", BAD_USAGE) from None
    except yaml.YAMLError as error:
        raise CommandError(f"{file} is no valid YAML: {' '.join(str(error).split())}", BAD_USAGE) from None
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise CommandError(f"{file}: expected keys with values, like rest.port: 8081", BAD_USAGE)
    values: dict[str, str] = {}
    for key, text in _flattened(file, "", content):
        if key in values:
            raise CommandError(f"{file}: {key} is given twice, once nested and once flat", BAD_USAGE)
        values[key] = text
    return values


def _configuration_file() -> Path | None:
    """`config.yaml` of FIRESTEEL_CONF_DIR, which must be there; else of ./conf, which may be."""
    directory = os.environ.get(CONF_DIR_VARIABLE)
    file = Path(directory or "conf") / CONF_FILE
    if file.is_file():
        return file
    if directory:
        raise CommandError(f"{CONF_DIR_VARIABLE} is {directory}, but there is no {file}", BAD_USAGE)
    return None


def _flattened(file: Path, prefix: str, content: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        key = f"{prefix}{name}"
        match value:
            case Mapping():
                yield from _flattened(file, f"{key}.", value)
            case None:
                continue
            case bool():
                yield key, str(value).lower()
            case list():
                raise CommandError(f"{file}: {key} is a list; give one value", BAD_USAGE)
            case _:
                yield key, str(value)
