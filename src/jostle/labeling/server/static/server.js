// Calls to the server that sent this page.

const PATIENCE = 8000; // ms that a reply may take

/** No reply: the server is not there, or too slow to be. */
export class Away extends Error {}

/** A reply that says no; `status` is HTTP's, the message is the server's words. */
export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

const FULL = 507; // the status of a disk without space: the server is there, and says so

/** Whether the server was there at the last call; `changed` is told when that changes. */
export const link = { there: true, changed() {} };

function seen(there) {
  if (link.there === there) return;
  link.there = there;
  link.changed();
}

/** An address beside this page: a server may have several projects, each in a folder of its own. */
export const local = (path) => `.${path}`;

/** Get bytes. */
export const bytes = (path) => call(path, undefined, () => {}, (reply) => reply.arrayBuffer());

/** Get, or post where there is a body; JSON both ways, unless `read` says otherwise. `done()` is called as soon as the server has done what it was
 *  asked, a few milliseconds before what it says of that is here. */
export async function call(path, body = undefined, done = () => {}, read = (reply) => reply.json()) {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let reply;
  try {
    reply = await fetch(local(path), { ...(body === undefined ? {} : post), signal: AbortSignal.timeout(PATIENCE) });
    if (reply.ok) done();
    const said = reply.ok ? await read(reply) : null;
    seen(reply.status < 500 || reply.status === FULL);
    if (reply.ok) return said;
  } catch (error) {
    seen(false);
    throw new Away(error.message);
  }
  if (reply.status >= 500 && reply.status !== FULL) throw new Away(`The server failed (${reply.status}).`);
  throw new Refused(reply.status, await words(reply));
}

async function words(reply) {
  if (reply.status === 401) return "The server has another token now: open the address that it printed.";
  try {
    const { detail } = await reply.json();
    return typeof detail === "string" ? detail : JSON.stringify(detail);
  } catch {
    return `The server said no (${reply.status}).`;
  }
}

/** A path with a query; what is null is left out, and a list is one name many times. */
export function address(path, query) {
  const pairs = Object.entries(query)
    .filter(([, value]) => value !== null && value !== undefined)
    .flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  return `${path}?${new URLSearchParams(pairs)}`;
}

/** The address of a picture, or of another form of it: "small" or "stretch". What a notebook holds is there in one form alone. */
export const pictureAt = (url, form) => (url.startsWith("blob:") ? url : local(form ? `${url}?${form}=1` : url));
