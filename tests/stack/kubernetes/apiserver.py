"""A real API server of Kubernetes, over a real etcd, with its users and its roles."""

import contextlib
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import yaml

from tests.durable.kubernetes import LIMIT_S, ApiServer, running
from tests.durable.zookeeper import DIES_WITH_PARENT
from tests.tidy.source import ROOT
from tools.kubernetes import program
from tools.standalone import free_port

MANIFESTS = ROOT / "deploy" / "kubernetes"
NAMESPACE = "firesteel"
KINDS = {
    "Namespace": "api/v1/namespaces",
    "ServiceAccount": "api/v1/namespaces/{}/serviceaccounts",
    "ConfigMap": "api/v1/namespaces/{}/configmaps",
    "PersistentVolumeClaim": "api/v1/namespaces/{}/persistentvolumeclaims",
    "Service": "api/v1/namespaces/{}/services",
    "Role": "apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Deployment": "apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "apis/apps/v1/namespaces/{}/statefulsets",
}
"""Paths at which objects are created."""

USERS = {"good": "firesteel-jobmanager", "reader": "firesteel-taskmanager"}
"""Service accounts of the manifests by what the tests call them."""

Manifest = dict[str, Any]


class RealApiServer(ApiServer):
    """Its state is in an etcd that is not restarted with it."""

    def __init__(self, directory: Path, etcd: str) -> None:
        super().__init__(directory)
        self.port, self._etcd = free_port(), etcd
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(directory / "ca.pem")
        issued = self._authority.issue_cert("127.0.0.1", "localhost")
        issued.private_key_pem.write_to_path(directory / "server.key")
        for each in issued.cert_chain_pems:
            each.write_to_path(directory / "server.pem", append=True)
        admin = self._authority.issue_cert("admin", common_name="admin", organization_name="system:masters")
        admin.private_key_and_cert_chain_pem.write_to_path(directory / "admin.pem")
        self._tokens: dict[str, str] = {}

    def command(self) -> Sequence[str]:
        own = self.directory
        return (
            str(program()),
            "kube-apiserver",
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={own / 'server.pem'}",
            f"--tls-private-key-file={own / 'server.key'}",
            f"--client-ca-file={own / 'ca.pem'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={own / 'server.key'}",
            f"--service-account-signing-key-file={own / 'server.key'}",
            "--endpoint-reconciler-type=none",
            "--feature-gates=WatchList=false",  # takes an etcd that is newer than Debian's
        )

    def is_ready(self, said: str) -> bool:
        with contextlib.suppress(httpx.HTTPError), self.admin() as admin:
            return admin.get("/readyz").status_code == 200
        return False

    def admin(self) -> httpx.Client:
        tls = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        tls.load_cert_chain(self.directory / "admin.pem")
        return httpx.Client(base_url=f"https://127.0.0.1:{self.port}", verify=tls, timeout=LIMIT_S, trust_env=False)

    def cluster(self) -> dict[str, Any]:
        return {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": "ca.pem"}

    def user(self, name: str) -> dict[str, Any]:
        """`admin` has a certificate, `good` and `reader` tokens of the manifests' accounts, all others one of nobody's."""
        if name == "admin":
            return {"client-certificate": "admin.pem", "client-key": "admin.pem"}
        return {"token": self._tokens.get(name, name)}

    def admit(self, cluster_id: str) -> None:
        """By the manifests' accounts and roles: these name the objects of one cluster, the newest."""
        with self.admin() as admin:
            created(admin, {"kind": "Namespace", "metadata": {"name": NAMESPACE}})
            for manifest in manifests("access.yaml", cluster_id):
                created(admin, manifest)
            for name, account in USERS.items():
                path = f"{KINDS['ServiceAccount'].format(NAMESPACE)}/{account}/token"
                answer = admin.post(path, json={"spec": {"expirationSeconds": 36_000}})
                assert answer.status_code == 201, answer.text
                self._tokens[name] = answer.json()["status"]["token"]
                self._wait_for(name, f"/{KINDS['ConfigMap'].format(NAMESPACE)}/firesteel-{cluster_id}")

    def _wait_for(self, user: str, path: str) -> None:
        """Until the user may read there: what is written of roles is heard a moment later."""
        tls = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        headers, until_s = {"Authorization": f"Bearer {self._tokens[user]}"}, time.monotonic() + LIMIT_S
        url = f"https://127.0.0.1:{self.port}{path}"
        while (answer := httpx.get(url, verify=tls, headers=headers, trust_env=False)).status_code != 404:
            assert time.monotonic() < until_s, answer.text
            time.sleep(0.1)


def created(admin: httpx.Client, manifest: Manifest, query: str = "") -> str:
    """Create it, or see that it is there; what the server warned of."""
    answer = admin.post(f"{KINDS[manifest['kind']].format(NAMESPACE)}{query}", json=manifest)
    if answer.status_code == 409 and manifest["kind"].startswith("Role"):
        name = manifest["metadata"]["name"]
        answer = admin.put(f"{KINDS[manifest['kind']].format(NAMESPACE)}/{name}{query}", json=manifest)
    assert answer.status_code in (200, 201, 409), answer.text
    return str(answer.headers.get("warning", ""))


def manifests(name: str, cluster_id: str = "default") -> list[Manifest]:
    text = (MANIFESTS / name).read_text().replace("firesteel-default", f"firesteel-{cluster_id}")
    return list(yaml.safe_load_all(text))


@contextlib.contextmanager
def etcd(directory: Path) -> Iterator[str]:
    """Its URL."""
    own, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = (
        "etcd",
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={own}",
        f"--advertise-client-urls={own}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    )
    with open(directory / "etcd.log", "wb") as log:
        process = subprocess.Popen([*DIES_WITH_PARENT, *command], stdout=log, stderr=log)
    try:
        until_s = time.monotonic() + LIMIT_S
        while not is_healthy(own):
            assert process.poll() is None, (directory / "etcd.log").read_text()
            assert time.monotonic() < until_s, (directory / "etcd.log").read_text()
            time.sleep(0.1)
        yield own
    finally:
        process.kill()
        process.wait(LIMIT_S)


def is_healthy(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return "true" in httpx.get(f"{url}/health", trust_env=False).text
    return False


@contextlib.contextmanager
def real_api_server(directory: Path) -> Iterator[RealApiServer]:
    if shutil.which("etcd") is None or not program().exists():
        pytest.skip("no API server of Kubernetes: make kubernetes")
    directory.mkdir()
    with etcd(directory) as url, running(RealApiServer(directory / "server", url)) as made:
        assert isinstance(made, RealApiServer)
        yield made


@contextlib.contextmanager
def scheduler(server: RealApiServer) -> Iterator[None]:
    """Kubernetes' own, which says on which node a pod runs, and why on none."""
    kubeconfig = server.kubeconfig("admin")
    command = (
        str(program()),
        "kube-scheduler",
        f"--kubeconfig={kubeconfig}",
        "--secure-port=0",
        "--leader-elect=false",
    )
    with open(server.directory / "scheduler.log", "wb") as log:
        process = subprocess.Popen([*DIES_WITH_PARENT, *command], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait(LIMIT_S)
