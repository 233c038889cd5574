// The columns of the table of all episodes, see episode_table.py.
(function (tm) {
  "use strict";

  const SHORT = { return: "episode_return", length: "episode_length", iteration: "training_iteration" };
  const FLAGS = new Set(["terminated", "success", "success_once", "success_at_end"]); // 0 and 1 are false and true
  const CONFIG = "config/";
  const isConfig = (name) => name.startsWith(CONFIG);

  tm.episodeColumns = { SHORT, CONFIG, FLAGS, isConfig };
})((window.tuneMedia = window.tuneMedia || {}));
