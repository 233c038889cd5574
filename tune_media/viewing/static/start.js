// Starts the viewer in a page of its own; <html data-source> says whether the data are on a server or in files.
(function (tm) {
  "use strict";

  const isServed = document.documentElement.dataset.source === "server";
  tm.app.start(
    document.getElementById("viewer"),
    isServed ? tm.hosts.serverSource({ live: true }) : tm.hosts.filesSource(),
    tm.hosts.pageHost(),
  );
})((window.tuneMedia = window.tuneMedia || {}));
