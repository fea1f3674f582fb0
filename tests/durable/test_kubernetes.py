"""The register of the leader in Kubernetes, at a server that answers as the API server does."""

import asyncio
import base64
import gc
import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from firesteel.adapters.ha.kubernetes import KubernetesRegister
from firesteel.adapters.ha.registers import leader_register
from firesteel.adapters.kubernetes.access import HOST, PORT, KubernetesAccess, configured_access
from firesteel.adapters.kubernetes.api import REQUEST_LIMIT_S, ApiError, KubernetesApi
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.register import Registered
from tests.durable import kubernetesstories as stories
from tests.durable.contenders import record
from tests.durable.kubernetes import CONFIG_FILE, ELECTION, ApiServer, running

CONTEXT, NAMESPACE = "kubernetes.context", "kubernetes.namespace"


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running(ApiServer(tmp_path_factory.mktemp("kubernetes") / "server")) as made:
        yield made


def test_of_all_who_claim_one_leads(api_server: ApiServer) -> None:
    asyncio.run(stories.of_all_who_claim_one_leads(api_server))


def test_news_come_at_once(tmp_path: Path) -> None:
    with running(ApiServer(tmp_path / "server")) as server:
        asyncio.run(stories.news_come_at_once(server))


def test_what_was_deleted_is_made_again(api_server: ApiServer) -> None:
    asyncio.run(stories.what_was_deleted_is_made_again(api_server.options()))


def test_a_leader_cut_off_from_the_api_server(api_server: ApiServer) -> None:
    asyncio.run(stories.a_leader_cut_off_from_the_api_server(api_server))


def test_frozen_is_not_lost(api_server: ApiServer) -> None:
    asyncio.run(stories.frozen_is_not_lost(api_server))


def test_masters_while_the_api_server_is_frozen_and_restarted(tmp_path: Path) -> None:
    with running(ApiServer(tmp_path / "server")) as server:
        asyncio.run(stories.masters_while_the_api_server_is_frozen_and_restarted(server, tmp_path))


def test_who_begins_while_the_api_server_stands_still_waits(tmp_path: Path) -> None:
    async def story(server: ApiServer) -> None:
        server.signal(signal.SIGSTOP)
        async with asyncio.TaskGroup() as group:
            opened = group.create_task(opens_and_closes(server.options()))
            await asyncio.sleep(REQUEST_LIMIT_S + 0.5)  # the first look had no answer
            assert not opened.done()
            server.signal(signal.SIGCONT)

    async def opens_and_closes(options: dict[str, str]) -> None:
        async with stories.register(options):
            pass

    with running(ApiServer(tmp_path / "server")) as server:
        asyncio.run(story(server))


# ── what is wrong ────────────────────────────────────────────────────────────────────────────
def refusal(options: dict[str, str]) -> str:
    """What a master says that would lead."""

    async def story() -> str:
        async with stories.register({f"{ELECTION}.lease-duration": "2 s", **options}) as it:
            await it.claim(record("a"), 0)
        return ""

    begun_s = time.monotonic()
    with pytest.raises(OSError) as refused:
        asyncio.run(story())
    assert time.monotonic() - begun_s < stories.TOLD_S
    return str(refused.value)


def test_the_permission_that_lacks_is_named(api_server: ApiServer) -> None:
    said = refusal({**api_server.options(), CONFIG_FILE: str(api_server.kubeconfig("reader"))})
    assert 'User "reader" cannot create resource "configmaps" in API group "" in the namespace "firesteel"' in said
    assert said.endswith("its Role must allow that, as the one in deploy/kubernetes/access.yaml does")


def test_a_token_that_nobody_knows(api_server: ApiServer) -> None:
    said = refusal({**api_server.options(), CONFIG_FILE: str(api_server.kubeconfig("nobody"))})
    assert "does not know who asks (Unauthorized): the credentials of the context 'it' of " in said


def test_a_namespace_that_is_not_there(api_server: ApiServer) -> None:
    said = refusal({**api_server.options(), NAMESPACE: "elsewhere"})
    assert 'namespaces "elsewhere" not found: create it, or set kubernetes.namespace to another one' in said


def test_nobody_listens(api_server: ApiServer) -> None:
    said = refusal({**api_server.options(), CONFIG_FILE: str(api_server.kubeconfig(port=1))})
    assert "the Kubernetes API server at http://127.0.0.1:1 can't be reached from " in said
    assert ": the address is from the context 'it' of " in said


def test_nobody_answers(api_server: ApiServer) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        file = api_server.kubeconfig(port=silent.getsockname()[1])
        said = refusal({**api_server.options(), CONFIG_FILE: str(file)})
    assert " has not answered " in said
    assert " in 5 s: the address is from the context 'it' of " in said


def test_nobody_answers_by_tls() -> None:
    """No half-made connection is left open: Python would say so."""

    async def story(port: int) -> None:
        tls = ssl.create_default_context()
        api = KubernetesApi(KubernetesAccess(f"https://127.0.0.1:{port}", "here", tls, "nobody"))
        with pytest.raises(ApiError, match=r" has not answered .+ in 2\.4 s: the address is from nobody"):
            await api.get("api/v1/configmaps", "any", dict)
        await api.close()

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        asyncio.run(story(silent.getsockname()[1]))
    gc.collect()


def test_a_config_map_of_somebody_else(api_server: ApiServer) -> None:
    async def story() -> None:
        options = api_server.options()
        name = f"firesteel-{options['high-availability.cluster-id']}"
        async with stories.register(options) as it:
            await it._api.create("api/v1/configmaps", {"metadata": {"name": name}, "data": {"leader": "nonsense"}})  # type: ignore[attr-defined]
            with pytest.raises(OSError, match=f"the ConfigMap {name} is not a record of a leader: delete it"):
                await it.newest()

    asyncio.run(story())


def test_a_name_that_no_object_can_have(api_server: ApiServer) -> None:
    with pytest.raises(
        ConfigurationError, match=r"high-availability.cluster-id: an object .* called 'firesteel-My_Own'"
    ):
        leader_register(Configuration({**api_server.options(), "high-availability.cluster-id": "My_Own"}))


# ── where it is, and as whom it is asked ─────────────────────────────────────────────────────
async def newest(access: KubernetesAccess) -> Registered | None:
    it = KubernetesRegister(KubernetesApi(access), "firesteel-none", lease_s=1)
    try:
        await it.open()
        return await it.newest()
    finally:
        await it.close()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[tuple[ApiServer, Path]]:
    """A server with a certificate, and what Kubernetes mounts into a pod."""
    server, mounted, authority = ApiServer(tmp_path / "server"), tmp_path / "mounted", trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(server.directory / "server.key")
    issued.cert_chain_pems[0].write_to_path(server.directory / "server.pem")
    mounted.mkdir()
    authority.cert_pem.write_to_path(mounted / "ca.crt")
    (mounted / "namespace").write_text("firesteel\n")
    (mounted / "token").write_text("good\n")
    with running(server):
        yield server, mounted


def test_in_a_pod(pod: tuple[ApiServer, Path]) -> None:
    """Its token is renewed while it runs."""
    server, mounted = pod
    environment = {HOST: "127.0.0.1", PORT: str(server.port)}
    access = configured_access(Configuration(), environment, mounted)
    assert (access.server, access.namespace) == (f"https://127.0.0.1:{server.port}", "firesteel")
    assert configured_access(Configuration({NAMESPACE: "other"}), environment, mounted).namespace == "other"

    async def story() -> None:
        it = KubernetesRegister(KubernetesApi(access), "firesteel-none", lease_s=15)
        try:
            assert await it.newest() is None
            (mounted / "token").write_text("expired")
            with pytest.raises(OSError, match="the credentials of the service account of this pod have expired"):
                await it.newest()
            (mounted / "token").write_text("good")
            assert await it.newest() is None
        finally:
            await it.close()

    asyncio.run(story())
    (mounted / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    with pytest.raises(OSError, match="certificate verify failed"):
        asyncio.run(newest(configured_access(Configuration(), environment, mounted)))
    (mounted / "ca.crt").unlink()
    with pytest.raises(ConfigurationError, match="does automountServiceAccountToken forbid it"):
        configured_access(Configuration(), environment, mounted)


def test_a_kubeconfig_with_files_beside_it_or_with_what_is_in_them(pod: tuple[ApiServer, Path]) -> None:
    server, mounted = pod
    url = f"https://127.0.0.1:{server.port}"
    encoded = base64.b64encode((mounted / "ca.crt").read_bytes()).decode()
    for cluster, user in (
        ({"certificate-authority": "ca.crt"}, {"tokenFile": "token"}),
        ({"certificate-authority-data": encoded}, {"token": "good"}),
    ):
        file = kubeconfig(mounted, {"server": url, **cluster}, user)
        assert asyncio.run(newest(configured_access(Configuration({CONFIG_FILE: str(file)}), {}))) is None
        assert asyncio.run(newest(configured_access(Configuration(), {"KUBECONFIG": str(file)}))) is None


def kubeconfig(directory: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    file = directory / "config"
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize(
    ("user", "options", "message"),
    [
        ({"exec": {"command": "aws"}}, {}, "the user 'u' gets credentials from a program, which is not run here"),
        ({}, {CONTEXT: "other"}, "it has no context 'other', but 'x'"),
        ({"token": 1}, {}, "Expected `str`, got `int`"),
        ({"client-certificate": "none.pem", "client-key": "none.key"}, {}, "No such file"),
    ],
)
def test_a_kubeconfig_that_can_not_be_used(
    tmp_path: Path, user: dict[str, Any], options: dict[str, str], message: str
) -> None:
    file = kubeconfig(tmp_path, {"server": "http://127.0.0.1:1"}, user)
    with pytest.raises(ConfigurationError, match=f"the Kubernetes configuration {file} can't be used: .*{message}"):
        configured_access(Configuration({CONFIG_FILE: str(file), **options}), {})


def test_neither_a_pod_nor_a_kubeconfig(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    with pytest.raises(ConfigurationError, match=r"this is no pod .* and there is no .*; set kubernetes.config.file"):
        configured_access(Configuration(), {"KUBECONFIG": missing})
    with pytest.raises(ConfigurationError, match=r"can't be used: .*No such file"):
        configured_access(Configuration({CONFIG_FILE: missing}), {})
