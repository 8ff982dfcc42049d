(function () {
  var charts = JSON.parse(document.getElementById("charts").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function axis(own) {
    return Object.assign({ gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"),
      automargin: true, fixedrange: false }, own);
  }
  function draw() {
    Object.keys(charts).forEach(function (name) {
      var place = document.getElementById(name), chart = charts[name];
      if (!place || !chart) { return; }
      var layout = Object.assign({ barmode: "stack", bargap: 0.08, paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--text"), family: "system-ui, sans-serif", size: 12 },
        margin: { l: 56, r: 8, t: 8, b: 40 }, showlegend: true,
        legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal" },
        hoverlabel: { align: "left" } }, chart.layout);
      layout.xaxis = axis(layout.xaxis);
      layout.yaxis = axis(layout.yaxis);
      Plotly.react(place, chart.data, layout, { responsive: true, displayModeBar: false, displaylogo: false });
    });
  }
  draw();
  dark.addEventListener("change", draw);
})();
