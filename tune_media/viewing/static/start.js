// Starts the viewer in a page of its own; <html data-source> says whether the data are on a server, in files, or held
// by the page.
(function (tm) {
  "use strict";

  const source = document.documentElement.dataset.source;
  tm.app.start(
    document.getElementById("viewer"),
    source === "server" ? tm.hosts.serverSource({ live: true }) : tm.hosts.filesSource(tm.held),
    source === "notebook" ? tm.hosts.notebookHost() : tm.hosts.pageHost(),
  );
})((window.tuneMedia = window.tuneMedia || {}));
