"use strict";
// The token behind the # of the address, which no server sees, belongs to the page of each experiment.
for (const link of document.querySelectorAll("td a")) link.hash = window.location.hash;
