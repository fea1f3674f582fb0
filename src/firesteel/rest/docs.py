"""The page /docs: every route, with a form to try it. One page, nothing from elsewhere."""

import html
import re
from collections.abc import Iterable

from firesteel.rest.call import Route

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>firesteel REST API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
 body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
 code, pre, input { font-family: ui-monospace, monospace; font-size: 13px }
 details { border-top: 1px solid #ccc; padding: .3rem 0 } summary { cursor: pointer }
 summary b { display: inline-block; width: 4.5rem } form { margin: .5rem 0 0 1rem }
 label { display: block } pre { background: #f4f4f4; padding: .5rem; overflow: auto; max-height: 24rem }
</style></head><body>
<h1>firesteel REST API</h1>
<p>Everything is served below <code>/v1</code> and without it. As a document: <a href="openapi.json">openapi.json</a>.
<label>Token, where the cluster asks for one: <input id="token" type="password"></label></p>
"""

_TAIL = """<script>
document.querySelectorAll("form").forEach(form => form.addEventListener("submit", async event => {
  event.preventDefault();
  const data = new FormData(form), query = new URLSearchParams();
  let path = form.dataset.path;
  for (const [name, value] of data) {
    if (path.includes("{" + name + "}")) path = path.replace("{" + name + "}", encodeURIComponent(value));
    else if (name !== "body" && value) query.set(name, value);
  }
  const options = { method: form.dataset.method, headers: {} }, token = document.getElementById("token").value;
  if (token) options.headers.Authorization = "Bearer " + token;
  if (data.get("body")) options.body = data.get("body");
  const answer = await fetch("v1" + path + (query.size ? "?" + query : ""), options);
  let text = await answer.text();
  try { text = JSON.stringify(JSON.parse(text), null, 2) } catch { }
  form.querySelector("pre").textContent = answer.status + "\\n" + text;
}));
</script></body></html>
"""


def docs_page(routes: Iterable[Route]) -> str:
    return _HEAD + "\n".join(map(_section, routes)) + _TAIL


def _section(route: Route) -> str:
    fields = [_field(name, "required") for name in re.findall(r"{(\w+)}", route.path)]
    fields += [_field(query.name, "", query.description) for query in route.query]
    if route.body is not None:
        fields.append('<label>body (JSON) <input name="body" size="60" value="{}"></label>')
    if route.takes_upload:
        tried = "<p>multipart/form-data: see the document.</p>"
    else:
        tried = f"{''.join(fields)}<button>Send</button><pre></pre>"
    path = html.escape(route.path)
    return (
        f"<details><summary><b>{route.method}</b> <code>{path}</code> {html.escape(route.summary)}</summary>"
        f'<form data-method="{route.method}" data-path="{path}">{tried}</form></details>'
    )


def _field(name: str, required: str, description: str = "") -> str:
    return f'<label><code>{name}</code> <input name="{name}" size="36" {required}> {html.escape(description)}</label>'
