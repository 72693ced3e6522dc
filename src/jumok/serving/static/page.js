// The page of jumok serve: one text, its answer and the probabilities.
"use strict";

const WORDS = {
  ko: {
    model: "모델", token: "토큰", text: "텍스트", send: "예측", other: "English",
    waiting: "계산하고 있습니다.", score: "점수", loading: "모델을 불러오고 있습니다.",
    second: "두 번째 텍스트", failed: "서버에 연결할 수 없습니다.", trace: "어텐션 보기",
  },
  en: {
    model: "Model", token: "Token", text: "Text", send: "Predict", other: "한국어",
    waiting: "Computing.", score: "score", loading: "The model is loading.",
    second: "Second text", failed: "The server cannot be reached.", trace: "Show the attention",
  },
};
const byId = (id) => document.getElementById(id);
let hasTraces = false;
let models = [];
let language = navigator.language.startsWith("ko") ? "ko" : "en";

function showWords() {
  const words = WORDS[language];
  document.documentElement.lang = language;
  for (const part of document.querySelectorAll("[data-text]")) {
    part.textContent = words[part.dataset.text];
  }
  const other = byId("language");
  other.textContent = words.other;
  other.lang = language === "ko" ? "en" : "ko";
}

async function call(path, body) {
  const headers = { "Accept-Language": language };
  if (byId("token").value) headers.Authorization = `Bearer ${byId("token").value}`;
  if (body) headers["Content-Type"] = "application/json";
  const reply = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  const content = await reply.json();
  byId("token-label").hidden = byId("token-label").hidden && reply.status !== 401;
  if (!reply.ok) throw new Error(content.error.message);
  return content;
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function probabilities(answer) {
  const rows = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
  return rows.slice(0, 20).map(([label, value]) => {
    const row = element("div", undefined, "row");
    const meter = element("meter");
    meter.value = value;
    meter.setAttribute("aria-label", label);
    row.append(element("span", label), meter, element("span", value.toFixed(4)));
    return row;
  });
}

function marked(answer) {
  const line = element("p", undefined, "output");
  const characters = Array.from(answer.text);
  let end = 0;
  for (const entity of answer.entities) {
    const mark = element("mark", entity.text);
    mark.append(element("small", entity.type));
    line.append(characters.slice(end, entity.start).join(""), mark);
    end = entity.end;
  }
  line.append(characters.slice(end).join(""));
  return [line];
}

function show(answer) {
  const parts = [];
  if (answer.probabilities) {
    const label = answer.labels ? answer.labels.join(" | ") || "–" : answer.label;
    parts.push(element("p", label, "output"), ...probabilities(answer));
  }
  if (answer.entities) parts.push(...marked(answer));
  if (answer.output !== undefined) parts.push(element("p", answer.output, "output"));
  if (answer.score !== undefined) parts.push(element("p", `${WORDS[language].score} ${answer.score.toFixed(4)}`));
  byId("answer").replaceChildren(...parts);
}

function fail(error) {
  const failed = error instanceof TypeError || error instanceof SyntaxError; // of fetch or of JSON
  byId("message").textContent = failed ? WORDS[language].failed : error.message;
}

const isPaired = () => models.some((model) => model.id === byId("model").value && model.paired);

function showFields() {
  byId("second-label").hidden = !isPaired();
}

async function showTrace(request) {
  byId("message").textContent = WORDS[language].waiting;
  try {
    const { address } = await call("v1/trace", request);
    const link = element("a", WORDS[language].trace);
    link.href = address;
    link.target = "_blank";
    link.rel = "noopener";
    byId("trace").replaceChildren(link);
    byId("message").textContent = "";
  } catch (error) {
    fail(error);
  }
}

function offerTrace(request) {
  const button = element("button", WORDS[language].trace);
  button.type = "button";
  button.addEventListener("click", () => showTrace(request));
  byId("trace").replaceChildren(button);
}

async function listModels() {
  try {
    const { data, traces } = await call("v1/models");
    hasTraces = traces;
    models = data;
    const chosen = byId("model").value;
    byId("model").replaceChildren(...data.map((model) => element("option", model.id)));
    if (chosen) byId("model").value = chosen;
    showFields();
    byId("message").textContent = data.every((model) => model.ready) ? "" : WORDS[language].loading;
  } catch (error) {
    fail(error);
  }
}

byId("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("message").textContent = WORDS[language].waiting;
  try {
    if (!models.every((model) => model.ready) || !byId("model").value) await listModels();
    const second = isPaired() ? `\t${byId("second").value}` : "";
    const request = { text: byId("text").value + second, model: byId("model").value };
    const { answers } = await call("v1/predict", { texts: [request.text], model: request.model });
    show(answers[0]);
    if (hasTraces) offerTrace(request);
    byId("message").textContent = "";
  } catch (error) {
    byId("answer").replaceChildren();
    byId("trace").replaceChildren();
    fail(error);
  }
});
byId("model").addEventListener("change", showFields);
byId("language").addEventListener("click", () => {
  language = language === "ko" ? "en" : "ko";
  showWords();
});
showWords();
listModels();
