"""The register of the leader at a real API server, with the roles of the manifests; what is wrong is told."""

import asyncio
from pathlib import Path

import pytest
import yaml

from firesteel.adapters.ha.registers import KUBERNETES_PREFIX
from firesteel.model import options
from firesteel.model.options import Configuration
from tests.durable import kubernetesstories as stories
from tests.durable.kubernetes import CONFIG_FILE
from tests.durable.test_kubernetes import NAMESPACE as NAMESPACE_OPTION
from tests.durable.test_kubernetes import refusal
from tests.stack.kubernetes.apiserver import MANIFESTS, NAMESPACE, RealApiServer, created, manifests, real_api_server


def test_of_all_who_claim_one_leads(api_server: RealApiServer) -> None:
    asyncio.run(stories.of_all_who_claim_one_leads(api_server))


def test_what_was_deleted_is_made_again(api_server: RealApiServer) -> None:
    """By an administrator, who alone may delete it."""
    given = {**api_server.options(), CONFIG_FILE: str(api_server.kubeconfig("admin"))}
    asyncio.run(stories.what_was_deleted_is_made_again(given))


def test_a_leader_cut_off_from_the_api_server(api_server: RealApiServer) -> None:
    asyncio.run(stories.a_leader_cut_off_from_the_api_server(api_server))


def test_frozen_is_not_lost(api_server: RealApiServer) -> None:
    asyncio.run(stories.frozen_is_not_lost(api_server))


def test_news_come_at_once(tmp_path: Path) -> None:
    with real_api_server(tmp_path / "all") as server:
        asyncio.run(stories.news_come_at_once(server))


def test_masters_while_the_api_server_is_frozen_and_restarted(tmp_path: Path) -> None:
    with real_api_server(tmp_path / "all") as server:
        asyncio.run(stories.masters_while_the_api_server_is_frozen_and_restarted(server, tmp_path))


def test_a_worker_may_look_and_not_lead(api_server: RealApiServer) -> None:
    said = refusal({**api_server.options(), CONFIG_FILE: str(api_server.kubeconfig("reader"))})
    user = f"system:serviceaccount:{NAMESPACE}:firesteel-taskmanager"
    assert f'User "{user}" cannot create resource "configmaps" in API group "" in the namespace "{NAMESPACE}"' in said


def test_a_token_that_nobody_knows(api_server: RealApiServer) -> None:
    said = refusal({**api_server.options(), CONFIG_FILE: str(api_server.kubeconfig("nobody"))})
    assert "does not know who asks (Unauthorized): the credentials of the context 'it' of " in said


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ("admin", 'namespaces "elsewhere" not found: create it, or set kubernetes.namespace to another one'),
        ("good", 'cannot get resource "configmaps" in API group "" in the namespace "elsewhere"'),
    ],
)
def test_a_namespace_that_is_not_there(api_server: RealApiServer, user: str, told: str) -> None:
    file = str(api_server.kubeconfig(user))
    assert told in refusal({**api_server.options(), CONFIG_FILE: file, NAMESPACE_OPTION: "elsewhere"})


def test_the_configuration_of_the_manifests_is_one() -> None:
    """And its cluster is the one that roles name."""
    (manifest,) = manifests("config.yaml")
    config = Configuration(yaml.safe_load(manifest["data"]["config.yaml"]))
    assert config.get_option(options.HA_TYPE) == "kubernetes"
    name = f"{KUBERNETES_PREFIX}{config.get_option(options.CLUSTER_ID)}"
    named = {
        name
        for role in manifests("access.yaml")
        for rule in role.get("rules", ())
        for name in rule.get("resourceNames", ())
    }
    assert named == {name}


def test_the_manifests_are_ones_that_kubernetes_takes(api_server: RealApiServer) -> None:
    """Tried without being done; a field that is unknown, or written twice, is refused."""
    api_server.admit("default")
    names = sorted(file.name for file in MANIFESTS.glob("*.yaml") if file.name != "kustomization.yaml")
    assert names == ["access.yaml", "config.yaml", "executors.yaml", "masters.yaml", "storage.yaml", "workers.yaml"]
    with api_server.admin() as admin:
        for manifest in (each for name in names for each in manifests(name)):
            assert created(admin, manifest, "?dryRun=All&fieldValidation=Strict") == ""
