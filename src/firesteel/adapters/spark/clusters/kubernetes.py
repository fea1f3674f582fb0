"""What a worker asks Kubernetes beside its drivers: whether these may have executors there, what their pods do, and to
delete those that no driver has any more."""

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

from firesteel.adapters.kubernetes.access import HOST, KUBECONFIG, NAMESPACE, KubernetesAccess, configured_access
from firesteel.adapters.kubernetes.api import ApiError, KubernetesApi
from firesteel.adapters.spark.clusters.kubernetesstory import KubernetesStory, Pod
from firesteel.adapters.spark.clusters.masters import MasterKind, SparkMaster
from firesteel.model import options
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.directories import kubectl_configuration

logger = logging.getLogger(__name__)

ROLE = "deploy/kubernetes/executors.yaml"
PODS, CONFIG_MAPS = "api/v1/pods", "api/v1/configmaps"
NEEDED = (
    *((verb, PODS) for verb in ("create", "get", "list", "watch", "patch", "delete", "deletecollection")),
    *((verb, CONFIG_MAPS) for verb in ("create", "list", "deletecollection")),
)
"""What Spark asks as a driver, and a worker for it."""
IN_NAMESPACE = "spark.kubernetes.namespace"
AUTHENTICATE = "spark.kubernetes.authenticate"
IMAGES = ("spark.kubernetes.executor.container.image", "spark.kubernetes.container.image")
OWNER = "spark.kubernetes.driver.pod.name"
POD = "POD_NAME"
"""Variable with the name of the worker's pod, as deploy/kubernetes/workers.yaml sets it; else it is the host's name."""
_APPLICATION = "spark-app-selector"
_EXECUTORS = "spark-role=executor"


class ExecutorPods:
    """Of all drivers of a worker."""

    def __init__(self, access: KubernetesAccess, settings: Mapping[str, str], pod: str) -> None:
        """`settings` are Spark's, `pod` is the name of the one that this process is in, if any."""
        self._access, self._settings, self._pod = access, settings, pod

    async def prepare(self) -> dict[str, str]:
        """Settings of drivers. Raises ConfigurationError with what keeps these from having executors, in a sentence."""
        if not any(self._settings.get(key) for key in IMAGES):
            raise ConfigurationError(
                f"executors in pods need an image: set {IMAGES[1]} to one with Spark and Python at the paths that this"
                " worker has, such as its own"
            )
        try:
            async with self._api() as api:
                await self._check(api)
                return {IN_NAMESPACE: self._access.namespace, **await self._adopt(api)}
        except ApiError as error:
            raise ConfigurationError(str(error)) from None

    async def look(self, story: KubernetesStory) -> None:
        """Have the story note what the pods of its application do."""
        try:
            async with self._api() as api:
                story.note_pods(await api.select(PODS, f"{_APPLICATION}={story.application},{_EXECUTORS}", Pod))
        except ApiError as error:
            story.note_silence(str(error))

    async def delete(self, application: str) -> None:
        """All of an application whose driver is gone. Its executors end by themselves, and would be listed for ever."""
        try:
            async with self._api() as api:
                for kind in (PODS, CONFIG_MAPS):
                    await api.delete(kind, f"{_APPLICATION}={application}")
        except ApiError as error:
            logger.warning("pods of the application %s may be left: %s", application, error)

    @contextlib.asynccontextmanager
    async def _api(self) -> AsyncIterator[KubernetesApi]:
        """Asked too seldom to keep a connection."""
        api = KubernetesApi(self._access, role=ROLE, namespace_key=IN_NAMESPACE)
        try:
            yield api
        finally:
            await api.close()

    async def _check(self, api: KubernetesApi) -> None:
        """Raises ApiError and ConfigurationError."""
        if not await api.has_namespace():
            raise ConfigurationError(
                f"{api} has no namespace {self._access.namespace!r}: create it, or set {IN_NAMESPACE} to another one"
            )
        for verb, kind in NEEDED:
            if not await api.may(verb, kind):
                raise ConfigurationError(
                    f"{api} does not let {self._access.origin} {verb} {kind.rpartition('/')[2]} in the namespace"
                    f" {self._access.namespace!r}: a Role must allow that, as the one in {ROLE} does"
                )

    async def _adopt(self, api: KubernetesApi) -> dict[str, str]:
        """Make the pod of this worker, where it is in one, the owner of those of executors: Kubernetes deletes them with it.

        Those that are its own already are of an earlier process, which was killed in it.
        """
        own = await api.get(PODS, self._pod, Pod) if self._pod else None
        if own is None or OWNER in self._settings:
            return {}
        pods = await api.select(PODS, _EXECUTORS, Pod)
        left = [pod for pod in pods if own.metadata.uid in [each.uid for each in pod.metadata.owners]]
        for application in sorted({pod.metadata.labels.get(_APPLICATION, "") for pod in left} - {""}):
            await self.delete(application)
        return {OWNER: self._pod}


def executor_pods(
    master: SparkMaster, settings: Mapping[str, str], environment: Mapping[str, str], host: str
) -> ExecutorPods | None:
    """None where executors are no pods. `settings` are Spark's. Raises ConfigurationError."""
    if master.kind is not MasterKind.KUBERNETES:
        return None
    access = access_to(master, settings, environment)
    pod = environment.get(POD, "") or (host if HOST in environment else "")
    return ExecutorPods(access, settings, pod)


def access_to(master: SparkMaster, settings: Mapping[str, str], environment: Mapping[str, str]) -> KubernetesAccess:
    """As Spark finds it: by its settings, else by a kubeconfig file, else by the service account of the pod that this is.

    Raises ConfigurationError.
    """
    namespace = settings.get(IN_NAMESPACE, "")
    if any(key.startswith(AUTHENTICATE) for key in settings):
        return _of_settings(master, settings, namespace or NAMESPACE)
    file = Path(environment.get(KUBECONFIG, "") or kubectl_configuration())
    if not file.exists() and HOST not in environment:
        raise ConfigurationError(
            f"as whom to ask {master.shown} is not known: this is no pod ({HOST} is not set), and there is no {file}; set"
            f" {KUBECONFIG}, or {AUTHENTICATE}.oauthTokenFile"
        )
    named = {options.KUBERNETES_CONTEXT.key: settings.get("spark.kubernetes.context", "")}
    named |= {options.KUBERNETES_CONFIG_FILE.key: str(file)} if file.exists() else {}
    found = configured_access(Configuration(named), environment)
    return replace(found, server=master.api_server, namespace=namespace or found.namespace)


def _of_settings(master: SparkMaster, settings: Mapping[str, str], namespace: str) -> KubernetesAccess:
    def given(name: str) -> str:
        return settings.get(f"{AUTHENTICATE}.{name}", "")

    try:
        tls = ssl.create_default_context(cafile=given("caCertFile") or None)
        if given("clientCertFile"):
            tls.load_cert_chain(given("clientCertFile"), given("clientKeyFile") or None)
    except OSError as error:
        raise ConfigurationError(f"{AUTHENTICATE}.*: files that it names can't be used: {error}") from None
    token_file = Path(given("oauthTokenFile")) if given("oauthTokenFile") else None
    origin = f"{AUTHENTICATE}.* of this worker"
    return KubernetesAccess(master.api_server, namespace, tls, origin, given("oauthToken"), token_file)
