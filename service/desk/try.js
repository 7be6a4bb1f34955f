// The page /try: sends a post, and draws its trial while it is told. Every text is a stranger's: it is set as text.
"use strict";

(() => {
  const at = (id) => document.getElementById(id);
  const page = at("trial");
  const words = JSON.parse(page.dataset.words);
  const IMAGES = /^image\/(png|jpeg|webp|gif|bmp|avif|heic|heif)$/;
  const SIDES = { prosecutor: "against", "debater:hate": "against", defender: "for", "debater:not_hate": "for" };
  let image = null;
  let trial = null;

  const made = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  const speaker = (seat) => words.speakers[seat] || (seat[0].toUpperCase() + seat.slice(1)).replaceAll(":", " ");
  const say = (text) => { at("status").textContent = text; };

  const complain = (message) => {
    at("wrong").textContent = message ? message[0].toUpperCase() + message.slice(1) : "";
    at("wrong").hidden = !message;
    if (message) at("wrong").scrollIntoView({ block: "nearest" });
  };

  const link = (address, text) => {
    if (!address) return made("span", text);
    const element = made("a", text);
    element.href = address;
    element.rel = "noopener noreferrer";
    element.target = "_blank";
    return element;
  };

  // An entry of the log; one of the same id takes the place of that before.
  const entry = (title, kind, id) => {
    const element = made("li", "", kind);
    if (title) element.append(made("h3", title));
    const before = id && trial.entries.get(id);
    if (before) before.replaceWith(element);
    else at("log").append(element);
    if (id) trial.entries.set(id, element);
    return element;
  };
  const paragraph = (element, text) => { if (text) element.append(made("p", text)); };
  const chip = (element, text, kind, rest) => {
    const line = made("p");
    line.append(made("span", text, `chip ${kind || ""}`), ` ${rest || ""}`);
    element.append(line);
  };

  const drawMarks = (segments, cues) => {
    at("post").replaceChildren(...segments.map((each) => {
      const element = made(each.cues.length ? "mark" : "span", each.text);
      if (each.cues.length && cues) element.title = each.cues.map((number) => cues[number]).join(", ");
      for (const number of each.ends) element.append(made("sup", String(number)));
      return element;
    }));
    at("post").hidden = !segments.length;
  };

  const drawTurn = (turn) => {
    if (turn.round > trial.round) {
      trial.round = turn.round;
      entry(`Round ${turn.round}`, "round");
    }
    const stage = words.stages[turn.stage] || turn.stage;
    const kind = turn.stage === "scan" ? "gate" : SIDES[turn.seat];
    const element = entry(`${speaker(turn.seat)}: ${stage}`, kind, `turn ${turn.id}`);
    for (const cue of turn.cues) {
      const group = cue.characteristic ? `${cue.target_group} (${cue.characteristic})` : cue.target_group;
      chip(element, cue.id, "bad", `${cue.type} · ${group} · ${cue.category}: ${cue.claim}`);
      paragraph(element, cue.justification);
    }
    const kinds = { press: "bad", withdraw: "good", refute: "good", concede: "bad" };
    for (const each of turn.arguments) {
      const does = each.held ? "as before" : each.stance + (each.stance === "press" ? "es" : "s");
      chip(element, `${each.cue_id} ${does}`, kinds[each.stance], each.argument);
    }
    if (turn.stance) chip(element, turn.stance, "", "");
    paragraph(element, turn.text);
    if (!turn.cues.length && !turn.arguments.length && !turn.text) paragraph(element, turn.stage === "scan" ? "No sign of hate found." : "Nothing found.");
  };

  const drawCost = (call) => {
    const sum = trial.cost;
    sum.calls += 1;
    sum.in += call.prompt_tokens || 0;
    sum.out += call.completion_tokens || 0;
    sum.seconds += call.seconds || 0;
    if (typeof call.cost === "number") sum.money = (sum.money || 0) + call.cost;
    at("calls").textContent = sum.calls.toLocaleString("en");
    at("tokens").textContent = `${sum.in.toLocaleString("en")} in, ${sum.out.toLocaleString("en")} out`;
    at("seconds").textContent = `${sum.seconds.toFixed(2)} s`;
    if (sum.money !== null) at("money").textContent = `$${sum.money.toFixed(4)}`;
  };

  const drawEnd = (end) => {
    trial.over = true;
    if (end.why) {
      complain(end.why);
      say("Ended without a verdict.");
      return;
    }
    drawMarks(end.segments);
    at("verdict").textContent = end.title;
    at("first").replaceChildren(made("span", end.first, `chip ${{ hate: "bad", other: "good" }[end.tone] || "warn"}`), ` ${end.track}`);
    at("reasons").replaceChildren(...end.reasons.map((each) => made("p", each, "words")));
    at("banners").replaceChildren(...end.banners.map((each) => made("span", each)));
    at("banners").hidden = !end.banners.length;
    at("money").textContent = end.cost.money || "–";
    at("case").textContent = trial.id;
    at("result").hidden = false;
    say(`Decided: ${end.first}.`);
    at("verdict").focus({ preventScroll: true });
  };

  const draw = {
    case: (event) => { trial.id = event.id; say("Received. Waiting for the first model."); },
    asking: (event) => say(`Waiting for ${speaker(event.seat)} (${event.model}).`),
    call: drawCost,
    turn: drawTurn,
    marks: (event) => drawMarks(event.segments, event.cues),
    triage: (event) => {
      const sure = event.confidence === null ? "no confidence" : `confidence ${event.confidence.toFixed(2)}`;
      const then = event.clear ? "clear, so no debate follows" : "not clear, so the debate follows";
      paragraph(entry(`Triage: ${event.category || "no decision"}, ${sure}; ${then}`, "gate"), event.explanation);
    },
    rest: (event) => entry(`No cue is in dispute: stopped after round ${event.round} of ${event.rounds}`, "gate"),
    round: (event) => {
      const answers = Object.entries(event.answers || {}).map(([seat, answer]) => `${speaker(seat)}: ${answer}`);
      paragraph(entry(`Round ${event.round}: ${event.consensus ? "all agree" : "not all agree"}`, "gate"), answers.join("\n"));
    },
    opinion: (event) => {
      const kind = event.stance === "hate" ? "against" : "for";
      paragraph(entry(`Perspective ${event.title || event.id}: ${event.label_name}`, kind), event.reason);
    },
    plan: (event) => { if (event.thought) paragraph(entry(`Research, turn ${event.turn}: thought`), event.thought); },
    queries: (event) => paragraph(entry(`Research, turn ${event.turn}: queries`), event.queries.filter(Boolean).join("\n")),
    search: (event) => paragraph(entry(""), `${plural(event.hits, "new page")} found`),
    page: (event) => {
      const element = entry("Page");
      element.append(link(event.href, event.title || event.url));
      paragraph(element, event.error);
    },
    evidence: (event) => {
      const element = entry(`Evidence ${event.id}: ${event.stance}`);
      paragraph(element, `“${event.passage}”`);
      element.append(link(event.href, event.title || event.url || "source"));
    },
    precedent: (event) => paragraph(entry(`Decided case: ${event.category}`), event.text),
    judgement: (event) => paragraph(entry(`Judgement so far: ${event.judgement}`), event.reasoning),
    sufficiency: (event) => entry(event.sufficient ? "The evidence is enough" : `Not enough: ${event.missing}`, "gate"),
    outcome: () => say("The judge has decided."),
    end: drawEnd,
  };

  const headers = () => (at("key").value.trim() ? { "X-API-Key": at("key").value.trim() } : {});

  const problem = async (answer) => {
    let message = `The service answered ${answer.status}.`;
    try { message = (await answer.json()).error.message; } catch { /* it is no JSON: the status has to do */ }
    if (answer.status === 401 || answer.status === 403) {
      at("with-key").hidden = false;
      at("key").focus();
    }
    return message;
  };

  // Events come as server-sent events, of which a piece may end anywhere.
  const read = async (answer, heard) => {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (held + value).split(/\r?\n/);
      held = lines.pop();
      for (const each of lines) if (each.startsWith("data: ")) heard(JSON.parse(each.slice(6)));
    }
  };

  const asked = () => {
    const settings = {};
    const policy = at("policy").selectedOptions[0];
    if (policy.value) settings.policy = policy.value;
    if (policy.dataset.task) settings.task = policy.dataset.task;
    if (at("model").value.trim()) settings.model = at("model").value.trim();
    const body = { text: at("text").value, settings };
    if (image) body.image = image;
    if (at("graph").value) body.graph = at("graph").value;
    return body;
  };

  const clear = () => {
    trial = { stopping: new AbortController(), entries: new Map(), round: 0, over: false, id: "", stopped: false,
      cost: { calls: 0, in: 0, out: 0, seconds: 0, money: null } };
    at("log").replaceChildren();
    at("post").textContent = at("text").value;
    at("post").hidden = !at("text").value;
    at("log").hidden = at("cost").hidden = false;
    at("result").hidden = true;
    at("calls").textContent = "0";
    at("tokens").textContent = "0 in, 0 out";
    at("seconds").textContent = "0 s";
    at("money").textContent = "–";
    complain("");
    say("Sent. Waiting for the service.");
  };

  at("try").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (trial && !trial.over) return;
    clear();
    const one = trial;
    at("start").disabled = true;
    at("stop").hidden = false;
    at("stop").focus();
    try {
      const answer = await fetch(page.dataset.judge, {
        method: "POST", signal: one.stopping.signal, body: JSON.stringify(asked()),
        headers: { ...headers(), "Content-Type": "application/json" },
      });
      if (answer.ok) await read(answer, (told) => (draw[told.event] || (() => {}))(told));
      else { complain(await problem(answer)); say("The service did not accept the post."); one.over = true; }
      if (!one.over) { complain("The service closed the connection before the debate was over. Try again."); say("Interrupted."); }
    } catch (error) {
      if (one.stopped) say("Stopped. No further model is asked.");
      else { complain(`The service can’t be reached. Check that it is running, and try again. (${error.message})`); say("Interrupted."); }
    }
    one.over = true;
    const waits = document.activeElement === at("stop");
    at("start").disabled = false;
    at("stop").hidden = true;
    if (waits) at("start").focus();
  });

  at("stop").addEventListener("click", () => {
    trial.stopped = true;
    trial.stopping.abort();
  });

  at("save").addEventListener("click", async () => {
    try {
      const answer = await fetch(`${page.dataset.cases}/${trial.id}/explanation?format=html`, { headers: headers() });
      if (!answer.ok) { complain(await problem(answer)); return; }
      const file = made("a");
      file.href = URL.createObjectURL(await answer.blob());
      file.download = `${trial.id}.html`;
      file.click();
      setTimeout(() => URL.revokeObjectURL(file.href), 60_000);
    } catch (error) {
      complain(`The page can’t be had; see whether the service runs, and save it again. (${error.message})`);
    }
  });

  const take = (file) => {
    image = null;
    at("preview").hidden = at("without-image").hidden = true;
    if (!file) return;
    if (!IMAGES.test(file.type)) {
      complain(`image: ${file.name}: is ${file.type || "of no known type"}; choose a PNG, JPEG, WEBP, GIF, BMP, AVIF or HEIC.`);
      return;
    }
    complain("");
    const reader = new FileReader();
    reader.addEventListener("load", () => {
      image = reader.result;
      at("preview").src = image;
      at("preview").hidden = at("without-image").hidden = false;
    });
    reader.readAsDataURL(file);
  };
  at("image").addEventListener("change", () => take(at("image").files[0]));
  at("without-image").addEventListener("click", () => { at("image").value = ""; take(null); at("image").focus(); });
  at("drop").addEventListener("dragover", (event) => { event.preventDefault(); at("drop").classList.add("over"); });
  at("drop").addEventListener("dragleave", () => at("drop").classList.remove("over"));
  at("drop").addEventListener("drop", (event) => {
    event.preventDefault();
    at("drop").classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  at("text").addEventListener("paste", (event) => {
    const file = [...event.clipboardData.files].find((each) => IMAGES.test(each.type));
    if (file) { event.preventDefault(); take(file); }
  });

  const tell = () => { at("about").textContent = at("graph").selectedOptions[0].dataset.about || ""; };
  at("graph").addEventListener("change", tell);
  tell();
})();
