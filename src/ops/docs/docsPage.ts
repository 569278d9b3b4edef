import { html } from "../../runtime/http/html.ts";
import { renderTable } from "../../html/parts.ts";
import type { Html } from "../../runtime/http/html.ts";
import { TRY_SCRIPT_ASSET } from "../html/assets.ts";
import { renderChoice } from "../html/choice.ts";
import { renderPage } from "../html/page.ts";

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly description: string;
  readonly schema: Record<string, unknown>;
}

type Content = Readonly<Record<string, { readonly schema: Record<string, unknown> }>>;

interface Operation {
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly parameters: readonly Parameter[];
  /** Empty: it needs no token. */
  readonly security?: readonly unknown[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
}

/** The parts of an OpenAPI document that the page shows. */
export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly webhooks: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Record<string, unknown>>> };
}

interface Place {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

const MEANING = { title: "Meaning", kind: "sentence" } as const;

/** The API documentation for people: every endpoint with parameters, bodies and answers, and every schema. */
export function renderDocs({ info, paths, webhooks, components }: ApiDocument): string {
  const places = Object.entries({ ...paths, ...webhooks }).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Place => ({ method, path, operation })),
  );
  const tags = [...new Set(places.flatMap(({ operation }) => operation.tags))];
  const body = html`<h1>API <span class="dim">version ${info.version}</span></h1>
    <p>${info.description}</p>
    <p><a href="/openapi.json">openapi.json</a>, OpenAPI 3.1</p>
    <h2 id="tokens">Tokens</h2>
    <p>
      Every request to <code>/v1</code> has a token in its header <code>Authorization</code>. The setting
      <code>API_TOKENS</code> lists them; without it, the first start makes one and prints it once. In the
      examples, <code>$TOKEN</code> is your token and <code>$MIRROR</code> the address of this server. A token
      is bound to one source, which the header <code>X-Source</code> may name. With
      <code>LOCAL_TRUST</code> and no tokens, a program on the same machine needs none, and
      <code>X-Source</code> selects the source, by default <code>live</code>.
    </p>
    <div data-scripted hidden>
      <form class="row">
        <label class="grow"
          >Token to try requests with <input type="password" id="token" autocomplete="off" spellcheck="false"
        /></label>
      </form>
      <p class="dim">Goes only to this server, and is forgotten when you leave the page.</p>
    </div>
    <nav aria-label="Endpoints">
      <ul class="plain">
        ${places.map(
          (place) =>
            html`<li>
              <a class="mono" href="#${idOf(place)}">${nameOf(place)}</a>
              <span class="dim">${place.operation.summary}</span>
            </li>`,
        )}
      </ul>
    </nav>
    ${tags.map((tag) =>
      renderTag(
        tag,
        places.filter(({ operation }) => operation.tags.includes(tag)),
      ),
    )}
    <h2 id="schemas">Schemas</h2>
    ${Object.entries(components.schemas).map(
      ([name, schema]) =>
        html`<details id="schema-${name}">
          <summary><h3 class="inline">${name}</h3></summary>
          <pre class="wide">${JSON.stringify(schema, null, 1)}</pre>
        </details>`,
    )}`;
  return renderPage({ title: "API", body, assets: [TRY_SCRIPT_ASSET] });
}

function renderTag(tag: string, places: readonly Place[]): Html {
  return html`<section class="source">
    <h2>${tag}</h2>
    ${places.map(renderPlace)}
  </section>`;
}

function renderPlace(place: Place): Html {
  const { summary, description = "", parameters, requestBody, responses } = place.operation;
  return html`<section class="endpoint" id="${idOf(place)}">
    <h3><code>${nameOf(place)}</code> ${summary}</h3>
    <p>${description}</p>
    ${
      place.method === "get"
        ? html`<pre>${writeCurl(place)}</pre>
            ${renderTry(place)}`
        : ""
    }
    ${parameters.length === 0 ? "" : renderParameters(parameters, nameOf(place))}
    ${requestBody === undefined ? "" : html`<p>Body: ${renderContent(requestBody.content)}</p>`}
    ${renderTable({
      title: `Answers of ${nameOf(place)}`,
      columns: ["Answer", MEANING, "Body"],
      rows: Object.entries(responses).map(([status, answer]) => [
        status,
        answer.description,
        answer.content === undefined ? "" : renderContent(answer.content),
      ]),
    })}
  </section>`;
}

/** A command to copy; a template's parts in braces stay for the reader to replace. */
function writeCurl({ path, operation }: Place): string {
  const token = operation.security?.length === 0 ? "" : '-H "Authorization: Bearer $TOKEN" ';
  return `curl ${token}"$MIRROR${path}"`;
}

/** A form that sends the request; only a script can, so it is hidden without one. */
function renderTry({ path, operation }: Place): Html {
  const fields = operation.parameters.filter(({ in: part }) => part === "path" || part === "query");
  return html`<details class="try" data-scripted hidden>
    <summary>Try GET ${path}</summary>
    <form class="row" data-path="${path}">${fields.map(renderField)} <button class="main">Send</button></form>
    <p role="status"></p>
    <pre tabindex="0" aria-label="Answer" hidden></pre>
  </details>`;
}

function renderField({ name, in: part, schema }: Parameter): Html {
  const { enum: words } = schema;
  if (Array.isArray(words)) {
    return renderChoice({ label: name, name, words: words.map(textOf), chosen: null });
  }
  const required = part === "path" ? html`required data-path-part` : html``;
  return html`<label
    >${name} <input name="${name}" placeholder="${describeForm(schema)}" ${required}
  /></label> `;
}

function renderParameters(parameters: readonly Parameter[], name: string): Html {
  return renderTable({
    title: `Parameters of ${name}`,
    columns: ["Parameter", "In", "Form", MEANING],
    rows: parameters.map((parameter) => [
      html`<code>${parameter.name}</code>`,
      parameter.in,
      describeForm(parameter.schema),
      parameter.description,
    ]),
  });
}

function describeForm({ type, format, enum: words, minimum, maximum }: Record<string, unknown>): string {
  if (Array.isArray(words)) return words.join(" · ");
  if (minimum !== undefined) return `${textOf(minimum)} to ${textOf(maximum)}`;
  return textOf(format ?? type);
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** A schema by its name, or the kind of text. */
function renderContent(content: Content): Html {
  return html`${Object.entries(content).map(([type, { schema }]) => {
    const name = textOf(schema["$ref"]).split("/").at(-1) ?? "";
    return name === "" ? html`<code>${type}</code>` : html`<a href="#schema-${name}">${name}</a>`;
  })}`;
}

function nameOf({ method, path }: Place): string {
  return `${method.toUpperCase()} ${path}`;
}

function idOf({ method, path }: Place): string {
  return `${method}${path.replaceAll(/[^a-z0-9]+/gi, "-")}`;
}
