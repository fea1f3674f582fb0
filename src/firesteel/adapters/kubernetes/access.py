"""Where the API server of Kubernetes is, and as whom it is asked: a pod's service account, or a kubeconfig file."""

import base64
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.directories import kubectl_configuration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""What Kubernetes mounts into a pod: `token`, which is renewed now and then, `ca.crt` and `namespace`."""

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""Variables that each pod has."""

KUBECONFIG = "KUBECONFIG"
NAMESPACE = "default"
"""When nothing says which."""

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class KubernetesAccess:
    server: str
    """URL, without a slash at its end."""
    namespace: str
    tls: ssl.SSLContext
    origin: str
    """Who says so, for people."""
    token: str = ""
    token_file: Path | None = None
    """Read again for each request; it counts, when there is one."""

    def bearer(self) -> str:
        """The token, or nothing where a certificate says who asks. Raises OSError."""
        return self.token_file.read_text().strip() if self.token_file is not None else self.token


def configured_access(
    config: Configuration, environment: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
) -> KubernetesAccess:
    """Of `kubernetes.config.file`, else of the pod that this is, else of kubectl. Raises ConfigurationError."""
    named = config.get_option(options.KUBERNETES_CONFIG_FILE)
    if not named and HOST in environment:
        return _of_pod(config, environment, service_account)
    file = Path(named or environment.get(KUBECONFIG, "") or kubectl_configuration())
    if not named and not file.exists():
        raise ConfigurationError(
            f"no Kubernetes is known: this is no pod ({HOST} is not set), and there is no {file}; set"
            f" {options.KUBERNETES_CONFIG_FILE.key}"
        )
    return _of_file(config, file)


def _of_pod(config: Configuration, environment: Mapping[str, str], mounted: Path) -> KubernetesAccess:
    host = environment[HOST]
    try:
        own = (mounted / "namespace").read_text().strip()
        tls = ssl.create_default_context(cafile=str(mounted / "ca.crt"))
    except OSError as error:
        raise ConfigurationError(
            f"the service account of this pod can't be used ({error}): does automountServiceAccountToken forbid it?"
        ) from None
    return KubernetesAccess(
        server=f"https://{f'[{host}]' if ':' in host else host}:{environment.get(PORT, '443')}",
        namespace=config.get_option(options.KUBERNETES_NAMESPACE) or own,
        tls=tls,
        origin="the service account of this pod",
        token_file=mounted / "token",
    )


# ── kubeconfig ───────────────────────────────────────────────────────────────────────────────
class _Cluster(msgspec.Struct, rename="kebab"):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: Any = None
    auth_provider: Any = None


class _Context(msgspec.Struct):
    cluster: str
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    """What is read of the file; it has more."""

    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str = ""


def _of_file(config: Configuration, file: Path) -> KubernetesAccess:
    import yaml

    try:
        read = msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), _Kubeconfig)
        name = config.get_option(options.KUBERNETES_CONTEXT) or read.current_context
        context = _named({each.name: each.context for each in read.contexts or ()}, name, "context")
        cluster = _named({each.name: each.cluster for each in read.clusters or ()}, context.cluster, "cluster")
        users = {each.name: each.user or _User() for each in read.users or ()}
        user = _named(users, context.user, "user") if context.user else _User()
        if user.exec is not None or user.auth_provider is not None:
            raise ValueError(
                f"the user {context.user!r} gets credentials from a program, which is not run here: give it a token"
                " (kubectl create token SERVICE-ACCOUNT)"
            )
        return KubernetesAccess(
            server=cluster.server.rstrip("/"),
            namespace=config.get_option(options.KUBERNETES_NAMESPACE) or context.namespace or NAMESPACE,
            tls=_tls(cluster, user, file.parent),
            origin=f"the context {name!r} of {file}",
            token=user.token,
            token_file=file.parent / user.token_file if user.token_file else None,
        )
    except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"the Kubernetes configuration {file} can't be used: {error}") from None


def _named(entries: Mapping[str, Entry], name: str, kind: str) -> Entry:
    if name not in entries:
        raise ValueError(f"it has no {kind} {name!r}, but {', '.join(map(repr, entries)) or 'none'}")
    return entries[name]


def _tls(cluster: _Cluster, user: _User, directory: Path) -> ssl.SSLContext:
    """Files are named relative to the directory. Raises OSError (as an SSLError is) and ValueError."""
    authorities = base64.b64decode(cluster.certificate_authority_data).decode()
    file = str(directory / cluster.certificate_authority) if cluster.certificate_authority else None
    tls = ssl.create_default_context(cafile=None if authorities else file, cadata=authorities or None)
    if user.client_certificate_data:
        with tempfile.TemporaryDirectory() as own:  # Python loads certificates from files only; this one is the owner's
            pair = Path(own) / "pair.pem"
            pair.write_bytes(b"\n".join(map(base64.b64decode, (user.client_certificate_data, user.client_key_data))))
            tls.load_cert_chain(pair)
    elif user.client_certificate:
        tls.load_cert_chain(directory / user.client_certificate, directory / user.client_key)
    return tls
