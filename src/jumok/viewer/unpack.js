"use strict";
// A page in one file: its style, script and font lie zipped in it. The policy of the page names the
// hashes of the style and the script, so nothing but these two can come out of here and run.
(async () => {
  const unzip = (id) => {
    const binary = atob(document.getElementById(id).textContent);
    const zipped = new Blob([Uint8Array.from(binary, (character) => character.charCodeAt(0))]);
    return new Response(zipped.stream().pipeThrough(new DecompressionStream("gzip")));
  };
  const add = (name, parent, text) => {
    const element = document.createElement(name);
    element.dataset.unpacked = "";
    element.textContent = text;
    parent.append(element);
  };
  const { state } = JSON.parse(document.getElementById("boot").textContent);
  if (state && !location.hash) location.hash = state;
  const [style, script] = await Promise.all(["packed-style", "packed-script"].map((id) => unzip(id).text()));
  add("style", document.head, style);
  const font = new FontFace("Jumok Hangul", await unzip("packed-font").arrayBuffer());
  document.fonts.add(await font.load());
  const policy = window.trustedTypes?.createPolicy("jumok", { createScript: (text) => text });
  add("script", document.body, policy ? policy.createScript(script) : script);
})();
