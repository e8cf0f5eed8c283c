// A notebook's side of the question view: a frame, whose calls travel as messages to the session in the kernel.

const KEPT = 50; // pictures that the frame may still show

function render({ model, el }) {
  const waiting = new Map(); // id -> what to do with the reply
  const pictures = []; // their addresses in this browser, the oldest first
  const name = Math.random().toString(36).slice(2); // of this view; every view hears all replies
  let last = 0;

  const reply = ({ id, status, body, addresses }, buffers) => {
    if (!waiting.has(id)) return; // of another view of this widget, or too late
    addresses.forEach(({ address, mime }, place) => {
      pictures.push(URL.createObjectURL(new Blob([buffers[place]], { type: mime })));
      body = body.replaceAll(JSON.stringify(address), JSON.stringify(pictures.at(-1)));
    });
    pictures.splice(0, pictures.length - KEPT).forEach((address) => URL.revokeObjectURL(address));
    waiting.get(id)(new Response(body, { status }));
    waiting.delete(id);
  };
  model.on("msg:custom", reply);

  /** `fetch` of the frame. It waits as long as the kernel runs another cell: sending again would only lengthen the queue. */
  const call = (address, { body = null } = {}) =>
    new Promise((done) => {
      const id = `${name}-${(last += 1)}`;
      waiting.set(id, done);
      model.send({ id, address: address.replace(/^\./, ""), body });
    });

  const frame = document.createElement("iframe");
  frame.title = "Label";
  frame.style.cssText = `display: block; width: 100%; height: ${model.get("height")}; border: 0;`;
  frame.call = call;
  el.append(frame);
  call("/notebook").then(async (page) => (frame.srcdoc = await page.text()));
  return () => model.off("msg:custom", reply);
}

export default { render };
