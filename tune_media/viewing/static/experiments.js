"use strict";
// The theme is the one that the user chose on the page of an experiment, or else the system's.
let theme = null;
try {
  ({ theme } = JSON.parse(localStorage.getItem("tune_media.viewer")));
} catch (error) { /* nothing is stored, or nothing can be */ }
const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.documentElement.dataset.theme = theme || system;
// The token behind the # of the address, which no server sees, belongs to the page of each experiment.
for (const link of document.querySelectorAll("td a")) link.hash = window.location.hash;
