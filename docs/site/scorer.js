// Lessons and guides come before the reference and the log, a heading that has the whole query
// before pages that have its words.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    const folder = docname.split("/")[0];
    const boost = { lessons: 6, guides: 6, en: 4, reference: 2 }[folder] || 0;
    const whole = kind === "title" ? 3 : 0;
    return docname.startsWith("_modules") ? score - 20 : score + boost + whole;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
