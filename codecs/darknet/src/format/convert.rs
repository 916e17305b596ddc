//! Makes layers of the sections of a `.cfg`, and computes the shapes of what they take and return.

use super::layer::too_large;
use super::{Activation, Detection, Image, Kind, Layer, Network, Section, Window};
use ckpt_api::{Error, Limit, Limits, Result};

/// The sections that are layers.
const SECTIONS: &str = "avgpool, connected, convolutional, cost, crop, detection, dropout, \
    maxpool, region, reorg, route, sam, scale_channels, shortcut, softmax, upsample, yolo";

/// The layer that another has its weights of, from 0 on.
const SHARE: &str = "share_index";

/// The name of a section that Darknet abbreviates.
fn whole(name: &str) -> &str {
    match name {
        "avg" => "avgpool",
        "conn" => "connected",
        "conv" => "convolutional",
        "max" => "maxpool",
        "soft" => "softmax",
        other => other,
    }
}

impl Network {
    /// Reads the layers of a `.cfg`: the first ones, if a number is given.
    pub(crate) fn parse(text: &str, count: Option<u64>, limits: &Limits) -> Result<Network> {
        let sections = Section::parse(text)?;
        let Some((net, rest)) = sections.split_first() else {
            return Err(Error::corrupt("the .cfg has no sections").expected("[net]"));
        };
        if !matches!(net.name, "net" | "network") {
            return Err(net
                .located(Error::corrupt("the .cfg does not begin with the network"), "")
                .found("another section")
                .expected("[net]"));
        }
        limits.check(Limit::GraphNodes, rest.len() as u64)?;
        let count = count.map_or(Ok(rest.len()), |count| {
            let own = usize::try_from(count).ok().filter(|count| (1..=rest.len()).contains(count));
            own.ok_or_else(|| {
                Error::usage("the .cfg does not have so many layers")
                    .field(super::LAYERS)
                    .found(count.to_string())
                    .expected(format!("1 to {}", rest.len()))
            })
        })?;
        let input = input(net)?;
        let mut layers: Vec<Layer> = Vec::with_capacity(count);
        let mut items = 0u64;
        for section in rest.iter().take(count) {
            let input = layers.last().map_or(input, |layer| layer.output);
            let reader = Reader { section, input, layers: &layers, net, limits };
            let layer = reader.layer()?;
            // A few bytes of a section can stand for many of them.
            items = items.saturating_add(layer.items());
            limits.check(Limit::GraphNodes, items).map_err(|error| section.located(error, ""))?;
            layers.push(layer);
        }
        Ok(Network { input, layers })
    }
}

/// The shape that `[net]` states.
fn input(net: &Section<'_>) -> Result<Image> {
    let [channels, height, width] = ["channels", "height", "width"].map(|key| net.count(key, 0));
    let image = Image { channels: channels?, height: height?, width: width? };
    if image.numbers() != Some(0) {
        return image.numbers().map(|_| image).ok_or_else(too_large);
    }
    match net.count("inputs", 0)? {
        0 => Err(net
            .located(Error::corrupt("the .cfg states no input"), "")
            .expected("channels, height and width of at least 1, or inputs")),
        channels => Ok(Image { channels, height: 1, width: 1 }),
    }
}

/// Reads one section. `input` is the result of the layer before.
struct Reader<'a> {
    section: &'a Section<'a>,
    input: Image,
    layers: &'a [Layer],
    net: &'a Section<'a>,
    limits: &'a Limits,
}

impl Reader<'_> {
    fn layer(&self) -> Result<Layer> {
        let Some(name) = SECTIONS.split(", ").find(|name| *name == whole(self.section.name)) else {
            let error = Error::unsupported("the .cfg has a layer whose weights are not known");
            let found: String = self.section.name.chars().take(60).collect();
            let error = error.found(format!("'{}'", found.escape_debug()));
            return Err(self.section.located(error, "").expected(SECTIONS));
        };
        let (kind, output) = match name {
            "convolutional" => self.convolution()?,
            "connected" => self.connected()?,
            "maxpool" => self.pool()?,
            "avgpool" => (Kind::GlobalMean, Image { height: 1, width: 1, ..self.input }),
            "route" => self.route()?,
            "shortcut" => self.shortcut()?,
            "scale_channels" | "sam" => {
                let from = self.earlier("from", self.section.int("from", 0)?)?;
                (Kind::Identity, self.output_of(from))
            }
            "crop" => {
                let [height, width] = ["crop_height", "crop_width"].map(|key| self.section.positive(key, 1));
                (Kind::Identity, Image { height: height?, width: width?, ..self.input })
            }
            "upsample" => self.upsample()?,
            "reorg" => self.reorg()?,
            "softmax" => (Kind::Softmax { is_spatial: self.section.flag("spatial")? }, self.input),
            "yolo" => {
                let detection = Detection::yolo(self.section, self.input, self.net, self.limits)?;
                (Kind::Detection(detection), self.input)
            }
            "region" => {
                let detection = Detection::region(self.section, self.input, self.limits)?;
                (Kind::Detection(detection), self.input)
            }
            _ => (Kind::Identity, self.input),
        };
        output.numbers().ok_or_else(|| self.section.located(too_large(), ""))?;
        let obstacle = self.obstacle(name)?;
        Ok(Layer { section: name, kind, input: self.input, output, obstacle })
    }

    /// Why no graph has the layer, if it is so.
    fn obstacle(&self, name: &str) -> Result<Option<String>> {
        /// Options that change what layers compute, and the number that means that they do nothing.
        const OPTIONS: [(&str, &str, f64); 9] = [
            ("convolutional", "dilation", 1.0),
            ("convolutional", "binary", 0.0),
            ("convolutional", "xnor", 0.0),
            ("convolutional", "antialiasing", 0.0),
            ("maxpool", "antialiasing", 0.0),
            ("softmax", "groups", 1.0),
            ("softmax", "temperature", 1.0),
            ("shortcut", "alpha", 1.0),
            ("shortcut", "beta", 1.0),
        ];
        for (section, key, neutral) in OPTIONS {
            if section == name && self.section.float(key, neutral)? != neutral {
                return Ok(Some(format!("{key} other than {neutral} is not supported")));
            }
        }
        Ok(matches!(name, "crop" | "sam" | "scale_channels").then(|| "is not supported".to_owned()))
    }

    /// Refuses options that decide which tensors the file has, in a way that is not known.
    fn refuse(&self, keys: &[&str]) -> Result<()> {
        let is_set = |key: &&&str| self.section.text(key).is_some_and(|value| value != "0" || **key == SHARE);
        match keys.iter().find(is_set) {
            None => Ok(()),
            Some(key) => {
                let error = Error::unsupported("a layer has other tensors than those of its kind");
                Err(self.section.located(error, key))
            }
        }
    }

    fn activation(&self, default: &str) -> Activation {
        Activation(self.section.text("activation").unwrap_or(default).to_owned())
    }

    /// The image that windows leave, with this padding on both sides together.
    fn windowed(&self, window: &Window, padding: u64, channels: u64) -> Result<Image> {
        let side = |len: u64| {
            let free = len.checked_add(padding)?.checked_sub(window.size)?;
            free.checked_div(window.stride)?.checked_add(1)
        };
        let sides = side(self.input.height).zip(side(self.input.width));
        let (height, width) = sides.ok_or_else(|| {
            let error = Error::corrupt("the window of a layer is larger than its image")
                .found(format!("size {} on {} by {}", window.size, self.input.height, self.input.width));
            self.section.located(error, "size")
        })?;
        Ok(Image { channels, height, width })
    }

    fn convolution(&self) -> Result<(Kind, Image)> {
        self.refuse(&[SHARE, "dontload", "dontloadscales", "stride_x", "stride_y"])?;
        let filters = self.section.positive("filters", 1)?;
        let size = self.section.positive("size", 1)?;
        let stride = self.section.positive("stride", 1)?;
        let padding = match self.section.flag("pad")? {
            true => size / 2,
            false => self.section.count("padding", 0)?,
        };
        let groups = self.section.positive("groups", 1)?;
        let channels = self.input.channels;
        if !channels.is_multiple_of(groups) || !filters.is_multiple_of(groups) {
            return Err(self.section.wrong(
                "groups",
                format!("a divisor of the {channels} channels that come in and of the {filters} filters"),
            ));
        }
        let window = Window { size, stride, padding };
        let output = self.windowed(&window, padding.saturating_mul(2), filters)?;
        let kind = Kind::Convolution {
            window,
            groups,
            has_norm: self.section.flag("batch_normalize")?,
            is_flipped: self.section.flag("flipped")?,
            activation: self.activation("logistic"),
        };
        Ok((kind, output))
    }

    fn connected(&self) -> Result<(Kind, Image)> {
        self.refuse(&["dontload", "dontloadscales"])?;
        let channels = self.section.positive("output", 1)?;
        let has_norm = self.section.flag("batch_normalize")?;
        let kind = Kind::Connected { has_norm, activation: self.activation("logistic") };
        Ok((kind, Image { channels, height: 1, width: 1 }))
    }

    fn pool(&self) -> Result<(Kind, Image)> {
        self.refuse(&["maxpool_depth", "stride_x", "stride_y"])?;
        let stride = self.section.positive("stride", 1)?;
        let size = self.section.positive("size", stride)?;
        let padding = self.section.count("padding", size.saturating_sub(1))?;
        if padding >= size.saturating_mul(2) {
            return Err(self.section.wrong("padding", format!("less than twice the size, {size}")));
        }
        let window = Window { size, stride, padding };
        Ok((Kind::Pool(window), self.windowed(&window, padding, self.input.channels)?))
    }

    /// The number of an earlier layer: one that is negative counts back from here.
    fn earlier(&self, key: &str, number: i64) -> Result<usize> {
        let here = self.layers.len();
        let found = usize::try_from(number).ok().or_else(|| {
            let back = usize::try_from(number.unsigned_abs()).ok()?;
            here.checked_sub(back)
        });
        found.filter(|found| *found < here).ok_or_else(|| {
            let expected = match here {
                0 => "a layer before this one, which is the first".to_owned(),
                _ => format!("layers 0 to {}, or -{here} to -1", here.saturating_sub(1)),
            };
            self.section.wrong(key, expected)
        })
    }

    fn earlier_ones(&self, key: &str) -> Result<Vec<usize>> {
        let numbers = self.section.ints(key)?.unwrap_or_default();
        if numbers.is_empty() {
            return Err(self.section.wrong(key, "the number of an earlier layer"));
        }
        numbers.into_iter().map(|number| self.earlier(key, number)).collect()
    }

    fn output_of(&self, layer: usize) -> Image {
        self.layers.get(layer).map_or(self.input, |layer| layer.output)
    }

    fn route(&self) -> Result<(Kind, Image)> {
        let from = self.earlier_ones("layers")?;
        let groups = self.section.positive("groups", 1)?;
        let group = self.section.count("group_id", 0)?;
        if group >= groups {
            return Err(self.section.wrong("group_id", format!("less than the {groups} groups")));
        }
        let first = from.first().map_or(self.input, |first| self.output_of(*first));
        let mut channels = 0u64;
        for own in from.iter().map(|layer| self.output_of(*layer)) {
            if [own.height, own.width] != [first.height, first.width] {
                let error = Error::corrupt("the layers of a route have images of several sizes").found(
                    format!("{} by {} and {} by {}", first.height, first.width, own.height, own.width),
                );
                return Err(self.section.located(error, "layers"));
            }
            if !own.channels.is_multiple_of(groups) {
                return Err(self
                    .section
                    .wrong("groups", format!("a divisor of the {} channels that come in", own.channels)));
            }
            channels = channels.checked_add(own.channels / groups).ok_or_else(too_large)?;
        }
        Ok((Kind::Route { from, groups, group }, Image { channels, ..first }))
    }

    fn shortcut(&self) -> Result<(Kind, Image)> {
        if self.section.text("weights_type").is_some_and(|value| value != "none") {
            self.refuse(&["weights_type"])?;
        }
        let from = self.earlier_ones("from")?;
        Ok((Kind::Shortcut { from, activation: self.activation("linear") }, self.input))
    }

    fn upsample(&self) -> Result<(Kind, Image)> {
        let stride = self.section.positive("stride", 2)?;
        let scale = self.section.float("scale", 1.0)?;
        let long = |len: u64| len.checked_mul(stride).ok_or_else(too_large);
        let output = Image { height: long(self.input.height)?, width: long(self.input.width)?, ..self.input };
        Ok((Kind::Upsample { stride, scale }, output))
    }

    fn reorg(&self) -> Result<(Kind, Image)> {
        self.refuse(&["flatten", "extra"])?;
        let stride = self.section.positive("stride", 1)?;
        let is_reverse = self.section.flag("reverse")?;
        let square = stride.checked_mul(stride).ok_or_else(too_large)?;
        let Image { channels, height, width } = self.input;
        // Both directions reorder a block of so many channels.
        let fits = channels.is_multiple_of(square)
            && (is_reverse || (height.is_multiple_of(stride) && width.is_multiple_of(stride)));
        if !fits {
            let error = Error::unsupported("a reorg layer cuts its image into uneven parts");
            let found = format!("{channels} channels of {height} by {width}");
            return Err(self.section.located(error, "stride").found(found));
        }
        let output = match is_reverse {
            true => Image {
                channels: channels / square,
                height: height.checked_mul(stride).ok_or_else(too_large)?,
                width: width.checked_mul(stride).ok_or_else(too_large)?,
            },
            false => Image {
                channels: channels.checked_mul(square).ok_or_else(too_large)?,
                height: height / stride,
                width: width / stride,
            },
        };
        Ok((Kind::Reorg { stride, is_reverse }, output))
    }
}
