// What went wrong, newest first: the user's own line, then what was raised, then all there is.
import { plural } from "./format.js";
import { Nothing, Panel, Time } from "./parts.js";
import { hasEnded } from "./states.js";
import { vertexOfRegion } from "./vertices.js";
import { html } from "./ui.js";

const KINDS = { user: "in the pipeline's code", environment: "of the environment", partition: "a stored result was lost", "non-recoverable": "running again can't help" };

export function lastFailure(job) {
  return job.status === "FAILED" || !hasEnded(job.status) ? job.exceptions[0]?.failure : undefined;
}

export function Failures({ job }) {
  if (!job.exceptions.length) return html`<${Panel} title="Exceptions"><${Nothing}>${hasEnded(job.status) ? "Nothing went wrong." : "Nothing has gone wrong so far."}<//><//>`;
  return html`<${Panel} title="Exceptions" aside="newest first">
    <ol class="failures">${job.exceptions.map((entry) => html`<${Entry} key=${entry.timestamp_ms + entry.region} job=${job} entry=${entry} />`)}</ol>
  <//>`;
}

function Entry({ job, entry }) {
  const { failure, concurrent } = entry;
  const vertex = entry.region >= 0 ? vertexOfRegion(job, entry.region) : null;
  const [first, ...more] = failure.message.split("\n");
  return html`<li class="failure">
    <p class="where">${failure.location && html`<code class="line">${failure.location}</code>`}${failure.vertex && html`<span>in <code>${failure.vertex}</code></span>`}${failure.spark_error && html`<span class="tag">${failure.spark_error}</span>`}</p>
    <p class="what">${failure.exception && html`<strong>${failure.exception.split(".").pop()}:</strong> `}${first}</p>
    ${more.length > 0 && html`<pre>${more.join("\n")}</pre>`}
    ${failure.excerpt && html`<pre class="excerpt" tabindex="0" aria-label="Code around that line">${failure.excerpt.split("\n").map((line) => html`<span class=${line.startsWith(">") ? "hit" : ""}>${line}</span>`)}</pre>`}
    ${failure.verdict && html`<p class="verdict">Failed for good: ${failure.verdict}</p>`}
    <p class="meta"><${Time} ms=${entry.timestamp_ms} /> · ${KINDS[failure.kind] ?? failure.kind}${vertex && html` · <a href=${`#/jobs/${job.job_id}/vertices/${vertex.id}/${entry.region - vertex.first_region}`}>${vertex.name} (${entry.region - vertex.first_region + 1}/${vertex.parallelism}), attempt ${entry.attempt}</a>`}${entry.task_manager && html` · <a href=${`#/workers/${encodeURIComponent(entry.task_manager)}`}>${entry.task_manager}</a>`}</p>
    ${failure.trace && html`<details><summary>Whole trace</summary><pre tabindex="0">${failure.trace}</pre></details>`}
    ${concurrent?.length > 0 && html`<details><summary>${plural(concurrent.length, "failure")} that came with it</summary><ol class="failures">${concurrent.map((each) => html`<${Entry} job=${job} entry=${each} />`)}</ol></details>`}
  </li>`;
}
