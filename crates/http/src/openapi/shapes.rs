//! Converts every schema of the document to a form that client generators support.

use serde_json::json;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Components, Object, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, RefOr, Schema};

/// Prefix of references to schemas.
const SCHEMAS: &str = "#/components/schemas/";

/// The operations of a path.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.delete].into_iter().flatten()
}

/// Converts nullable members and optional parameters to plain types, and removes schemas without a reference.
///
/// Generators do not support `oneOf` with a bare `null`, which JSON Schema allows.
pub(super) fn simplify(document: &mut OpenApi) {
    let mut is_done = false;
    while !is_done {
        is_done = true;
        let known = document.components.clone().unwrap_or_default();
        each_schema(document, &mut |schema| {
            if let RefOr::T(Schema::OneOf(choice)) = schema
                && let Some(plain) = or_null(&choice.items, choice.description.take(), &known)
            {
                *schema = RefOr::T(plain);
                // The copied type can have such members itself.
                is_done = false;
            }
        });
    }
    parameters_are_not_null(document);
    name_success(document);
    drop_unused(document);
}

/// The only alternative to `null`, as a nullable type.
fn or_null(items: &[RefOr<Schema>], description: Option<String>, known: &Components) -> Option<Schema> {
    let (nulls, others): (Vec<_>, Vec<_>) = items.iter().partition(|item| is_null(item));
    let ([_], [other]) = (&nulls[..], &others[..]) else { return None };
    let mut plain = nullable(resolve(other, known)?)?;
    // The description of the member is more specific than that of its type.
    plain.description = description.or(plain.description);
    Some(Schema::Object(plain))
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
}

fn resolve<'a>(schema: &'a RefOr<Schema>, known: &'a Components) -> Option<&'a Schema> {
    match schema {
        RefOr::T(schema) => Some(schema),
        RefOr::Ref(reference) => resolve(known.schemas.get(reference.ref_location.strip_prefix(SCHEMAS)?)?, known),
    }
}

fn nullable(schema: &Schema) -> Option<Object> {
    let Schema::Object(object) = schema else { return None };
    let mut object = object.clone();
    let SchemaType::Type(kind) = object.schema_type else { return None };
    object.schema_type = SchemaType::from_iter([kind, Type::Null]);
    if let Some(values) = &mut object.enum_values {
        values.push(json!(null));
    }
    Some(object)
}

/// An optional parameter is absent, never null: a query and a header have no null.
fn parameters_are_not_null(document: &mut OpenApi) {
    let parameters = document.paths.paths.values_mut().flat_map(operations);
    for parameter in parameters.flat_map(|operation| operation.parameters.iter_mut().flatten()) {
        if let RefOr::T(parameter) = parameter
            && let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema
        {
            not_null(schema);
        }
    }
}

fn not_null(schema: &mut Object) {
    if let SchemaType::Array(kinds) = &mut schema.schema_type {
        kinds.retain(|kind| *kind != Type::Null);
        if let [kind] = &kinds[..] {
            schema.schema_type = SchemaType::Type(kind.clone());
        }
    }
    if let Some(values) = &mut schema.enum_values {
        values.retain(|value| !value.is_null());
    }
}

/// `success` has a fixed value in every response except those of the health checks.
fn name_success(document: &mut OpenApi) {
    let Some(components) = &mut document.components else { return };
    for (name, schema) in &mut components.schemas {
        let value = match name.as_str() {
            "Health" | "Readiness" => continue,
            "ApiError" => false,
            _ => true,
        };
        let parts = match schema {
            RefOr::T(Schema::AllOf(all)) => &mut all.items[..],
            schema => std::slice::from_mut(schema),
        };
        for part in parts {
            if let RefOr::T(Schema::Object(body)) = part
                && let Some(RefOr::T(Schema::Object(success))) = body.properties.get_mut("success")
            {
                success.enum_values = Some(vec![json!(value)]);
            }
        }
    }
}

fn drop_unused(document: &mut OpenApi) {
    loop {
        let text = serde_json::to_string(document).unwrap_or_default();
        let Some(components) = &mut document.components else { return };
        let before = components.schemas.len();
        components.schemas.retain(|name, _| text.contains(&format!("\"{SCHEMAS}{name}\"")));
        // Removing a schema can remove the last reference to another one.
        if components.schemas.len() == before {
            return;
        }
    }
}

/// Applies `change` to every schema, inner schemas first.
fn each_schema(document: &mut OpenApi, change: &mut dyn FnMut(&mut RefOr<Schema>)) {
    if let Some(components) = &mut document.components {
        components.schemas.values_mut().for_each(|schema| within(schema, change));
    }
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter {
                parameter.schema.iter_mut().for_each(|schema| within(schema, change));
            }
        }
        if let Some(RefOr::T(body)) = &mut operation.request_body {
            body.content.values_mut().for_each(|content| within_content(content, change));
        }
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.values_mut().for_each(|content| within_content(content, change));
            }
        }
    }
}

fn within_content(content: &mut RefOr<Content>, change: &mut dyn FnMut(&mut RefOr<Schema>)) {
    if let RefOr::T(Content { schema: Some(schema), .. }) = content {
        within(schema, change);
    }
}

fn within(schema: &mut RefOr<Schema>, change: &mut dyn FnMut(&mut RefOr<Schema>)) {
    if let RefOr::T(schema) = schema {
        match schema {
            Schema::Array(array) => {
                if let ArrayItems::RefOrSchema(items) = &mut array.items {
                    within(items, change);
                }
            }
            Schema::Object(object) => {
                object.properties.values_mut().for_each(|member| within(member, change));
                if let Some(AdditionalProperties::RefOr(values)) = object.additional_properties.as_deref_mut() {
                    within(values, change);
                }
            }
            Schema::OneOf(choice) => choice.items.iter_mut().for_each(|item| within(item, change)),
            Schema::AnyOf(choice) => choice.items.iter_mut().for_each(|item| within(item, change)),
            Schema::AllOf(all) => all.items.iter_mut().for_each(|item| within(item, change)),
            _ => {}
        }
    }
    change(schema);
}
