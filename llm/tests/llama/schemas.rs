//! Random JSON schemas of everything that can be enforced.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

const NAMES: [&str; 10] = [
    "name", "id", "kind", "tags", "size", "child", "note", "größe", "a b", "x\"y",
];
const WORDS: [&str; 6] = ["red", "green", "blue", "on \"hold\"", "α", ""];
const PATTERNS: [&str; 8] = [
    "^[a-z]{2,5}$",
    "^\\d{3}-\\d{4}$",
    "^(foo|bar)+$",
    "[0-9]",
    "^[A-Z][a-z]*( [A-Z][a-z]*)?$",
    "^x?y+z{1,3}$",
    "^\\w+@\\w+\\.(com|org)$",
    "^[^\\s\"]{1,6}$",
];
const FORMATS: [&str; 6] = ["date", "time", "date-time", "uuid", "ipv4", "email"];

/// Makes schemas, the same ones for the same seed.
pub(crate) struct Schemas {
    random: ChaCha8Rng,
    /// Names of the definitions of the schema that is being made.
    definitions: u32,
}

impl Schemas {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            definitions: 0,
        }
    }

    /// A schema of an object, with definitions that it may use.
    pub(crate) fn document(&mut self) -> Value {
        self.definitions = self.below(3);
        let mut schema = self.object(2);
        let mut definitions = Map::new();
        for number in 0..self.definitions {
            let mut definition = self.object(1);
            // A definition that leads to itself, by a way that can be left out.
            if self.one_in(2) {
                definition["properties"]["next"] = reference(number);
            }
            definitions.insert(format!("d{number}"), definition);
        }
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        schema
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }

    fn one_in(&mut self, number: u32) -> bool {
        self.below(number) == 0
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u32) as usize]
    }

    fn any(&mut self, depth: u32) -> Value {
        if depth == 0 {
            return self.leaf();
        }
        match self.below(10) {
            0 | 1 => self.object(depth - 1),
            2 | 3 => self.array(depth - 1),
            4 => self.any_of(depth - 1),
            5 if self.definitions > 0 => reference(self.below(self.definitions)),
            6 => self.all_of(),
            _ => self.leaf(),
        }
    }

    fn leaf(&mut self) -> Value {
        match self.below(12) {
            0..=2 => self.integer(),
            3 => self.number(),
            4 | 5 => self.string(),
            6 => json!({"type": "string", "pattern": self.pick(&PATTERNS)}),
            7 => json!({"type": "string", "format": self.pick(&FORMATS)}),
            8 => json!({"enum": [self.pick(&WORDS), self.below(100), null, {"a": [1, "b"]}]}),
            9 => json!({"const": self.pick(&WORDS)}),
            10 => json!({"type": ["boolean", "null"]}),
            _ => json!({"type": "boolean"}),
        }
    }

    fn integer(&mut self) -> Value {
        let low = i64::from(self.below(2000)) - 1000;
        let high = low + i64::from(self.below(500));
        match self.below(5) {
            0 => json!({"type": "integer", "minimum": low, "maximum": high}),
            1 => json!({"type": "integer", "exclusiveMinimum": low, "maximum": high + 1}),
            2 => {
                json!({"type": "integer", "minimum": 0, "maximum": 10_000, "multipleOf": 1 + self.below(12)})
            }
            3 => json!({"type": "integer", "minimum": low, "maximum": low}),
            _ => json!({"type": "integer", "minimum": -99_999, "maximum": 99_999}),
        }
    }

    fn number(&mut self) -> Value {
        let low = f64::from(self.below(2000)) / 8.0 - 100.0;
        let high = low + f64::from(1 + self.below(400)) / 16.0;
        match self.below(3) {
            0 => json!({"type": "number", "minimum": low, "maximum": high}),
            1 => json!({"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high}),
            _ => json!({"type": "number", "minimum": 0}),
        }
    }

    fn string(&mut self) -> Value {
        let shortest = self.below(4);
        match self.below(12) {
            0 => json!({"type": "string"}),
            _ => {
                json!({"type": "string", "minLength": shortest, "maxLength": shortest + self.below(9)})
            }
        }
    }

    fn array(&mut self, depth: u32) -> Value {
        let least = self.below(3);
        let most = least + self.below(3);
        let items = self.any(depth);
        match self.below(8) {
            0 | 1 => {
                json!({"type": "array", "prefixItems": [self.any(depth), self.leaf()], "items": false, "minItems": 2})
            }
            2 => json!({"type": "array", "items": items, "minItems": least}),
            _ => json!({"type": "array", "items": items, "minItems": least, "maxItems": most}),
        }
    }

    fn object(&mut self, depth: u32) -> Value {
        let mut properties = Map::new();
        for _ in 0..=self.below(4) {
            let name = self.pick(&NAMES);
            let schema = self.any(depth);
            properties.insert(name.to_owned(), schema);
        }
        let required: Vec<String> = properties
            .keys()
            .filter(|_| !self.one_in(3))
            .cloned()
            .collect();
        let mut object = json!({"type": "object", "properties": properties, "required": required});
        match self.below(6) {
            0 => {}
            1 => object["additionalProperties"] = self.integer(),
            _ => object["additionalProperties"] = false.into(),
        }
        object
    }

    fn any_of(&mut self, depth: u32) -> Value {
        let options: Vec<Value> = (0..2 + self.below(2)).map(|_| self.any(depth)).collect();
        json!({"anyOf": options})
    }

    fn all_of(&mut self) -> Value {
        let least = self.below(3);
        json!({"allOf": [
            {"type": "string", "minLength": least, "maxLength": least + 6},
            {"type": "string", "pattern": "^[a-z]*$"},
        ]})
    }
}

fn reference(definition: u32) -> Value {
    json!({"$ref": format!("#/$defs/d{definition}")})
}
