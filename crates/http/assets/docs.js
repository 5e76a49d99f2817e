// Starts Swagger UI without its own top bar. By default it sends the document to a validator of its vendor; "none" keeps
// the document on this server.
window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  tryItOutEnabled: true,
  persistAuthorization: false,
  validatorUrl: "none",
});
