#!/bin/sh
# What the image runs: firesteel, or, where Spark says "executor", an executor of Spark's on Kubernetes, from the same
# installation. What that is to be stands in variables of its pod.
set -e
home=${FIRESTEEL_HOME:-/opt/firesteel}
if [ "$1" != executor ]; then
  exec "$home/bin/firesteel" "$@"
fi
spark=$("$home/bin/python" -c 'import importlib.util as found; print(*found.find_spec("pyspark").submodule_search_locations)')
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
  set -- "$@" "$option"
  number=$((number + 1))
done
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "$SPARK_CLASSPATH:$spark/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
