// Starts the viewer in a page of its own; <html data-source> says whether the data are on a server or in files.
(function (tm) {
  "use strict";

  const source = document.documentElement.dataset.source;
  tm.app.start(
    document.getElementById("viewer"),
    source === "files" ? tm.hosts.filesSource() : tm.hosts.serverSource({ live: true }),
    tm.hosts.pageHost(),
  );
})((window.tuneMedia = window.tuneMedia || {}));
