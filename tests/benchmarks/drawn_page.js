// Records when a page was last drawn, and how long it takes to respond to the pointer. The benchmark
// runs this script in all frames of a page before the page's own scripts.

(() => {
  const elements = document.getElementsByTagName("*");
  const kinds = [
    [globalThis.CanvasRenderingContext2D, ["drawImage", "putImageData", "fillRect", "fillText", "stroke", "fill"]],
    [globalThis.WebGLRenderingContext, ["drawArrays", "drawElements"]],
    [globalThis.WebGL2RenderingContext, ["drawArrays", "drawElements"]],
  ];
  let canvasCalls = 0, hasChanged = false, isWaiting = false;
  const measured = {changed: 0, responses: []};
  globalThis.measured = measured;
  for (const [kind, names] of kinds) {
    for (const name of kind ? names : []) {
      const original = kind.prototype[name];
      kind.prototype[name] = function (...given) {
        canvasCalls++;
        return original.apply(this, given);
      };
    }
  }

  /** Call a function after the frame was painted whose animation callbacks are running. */
  function afterPaint(act) {
    const channel = new MessageChannel();
    channel.port1.onmessage = act;
    channel.port2.postMessage(null);
  }

  let knownElements = -1, knownCalls = -1;
  (function look() {
    requestAnimationFrame(() => {
      if (elements.length !== knownElements || canvasCalls !== knownCalls) {
        [knownElements, knownCalls] = [elements.length, canvasCalls];
        afterPaint(() => { measured.changed = performance.timeOrigin + performance.now(); });
      }
      look();
    });
  })();

  /** Return the current time after two frames were painted, which record earlier changes. */
  measured.frames = () => new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(() => afterPaint(() => {
      resolve(performance.timeOrigin + performance.now());
    })));
  });

  /** Observe all changes from now on, and measure the time from an event to the painted change. */
  measured.await = (names) => {
    new MutationObserver(() => { hasChanged = true; }).observe(document, {
      subtree: true, childList: true, attributes: true, characterData: true,
    });
    for (const name of names) addEventListener(name, start, true);
  };
  measured.arm = () => { [isWaiting, hasChanged] = [true, false]; };

  function start(event) {
    if (!isWaiting) return;
    isWaiting = false;
    const calls = canvasCalls, from = event.timeStamp;
    (function look() {
      requestAnimationFrame(() => afterPaint(() => {
        const elapsed = performance.now() - from;
        if (hasChanged || canvasCalls !== calls) measured.responses.push(elapsed);
        else if (elapsed < 500) look();
      }));
    })();
  }
})();
