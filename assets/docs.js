// The script of `/docs`: shows the description of the API with Swagger UI, which is loaded before it. Only reads can be
// tried: a write would order a courier. The token that a person enters is forgotten when the page is left.
"use strict";
SwaggerUIBundle({
  url: "openapi.json",
  domNode: document.getElementById("api"),
  // Deep links would stand inside of buttons, where a screen reader does not find them.
  deepLinking: false,
  defaultModelsExpandDepth: 0,
  displayOperationId: false,
  supportedSubmitMethods: ["get"],
  onComplete: () => document.getElementById("servers")?.setAttribute("aria-label", "Server"),
  // Its default asks a foreign host.
  validatorUrl: "none",
  requestInterceptor: (request) => Object.assign(request, { credentials: "omit" }),
});
