//! Views that skip or repeat what is stored.

use super::*;
use ckpt_api::{AxisOrder, Tile, Window};

/// A view of numbers of 16 bits, of which the stored element `k` is `k`.
#[derive(Debug)]
struct View {
    shape: Vec<u64>,
    strides: Vec<u64>,
    /// Axes in the order in which they are gathered, and in which they are wanted.
    stored: Vec<usize>,
    wanted: Vec<usize>,
    endian: Endian,
}

impl View {
    fn tensor(&self) -> Tensor {
        Tensor::new("v", DType::U16, Shape::new(self.shape.clone()).unwrap())
    }

    fn window(&self) -> Window {
        Window::new(vec![0; self.shape.len()], Shape::new(self.shape.clone()).unwrap())
            .with_strides(self.strides.clone())
    }

    /// The file, and the placement in it, 6 bytes from its start.
    fn stored(&self) -> (Vec<u8>, Placement) {
        let window = self.window();
        let reach = window.reach().unwrap();
        let numbers: Vec<u64> = (0..reach).collect();
        let bytes = [&[0; 6][..], &bytes_of(&numbers, self.endian)].concat();
        let encoding = Encoding::row_major(&self.tensor()).with_endian(self.endian);
        let placement = Placement::new(
            TensorId(0),
            "v",
            vec![Extent::new(FileId(0), 6, 2 * reach)],
            encoding.with_order(self.stored.clone()),
        );
        (bytes, placement.with_window(window))
    }

    /// Its elements in this order of axes.
    fn elements(&self, order: &[usize]) -> Vec<u64> {
        let dims = Shape::new(self.shape.clone()).unwrap().permuted(order);
        let element = |mut k: u64| {
            let mut sum = 0;
            for (axis, len) in order.iter().zip(dims.iter()).rev() {
                sum += k % len * self.strides[*axis];
                k /= len;
            }
            sum
        };
        (0..dims.elements()).map(element).collect()
    }

    /// What a stream yields of it in this encoding.
    fn read(&self, target: &Encoding, tile: u64) -> Vec<u8> {
        let (bytes, source) = self.stored();
        let contents = Contents::default()
            .with_files(vec!["f".into()])
            .with_checkpoint(Checkpoint { tensors: vec![self.tensor()], ..Checkpoint::default() })
            .with_placements(vec![source.clone()]);
        contents.check(&Limits::default()).unwrap();
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), bytes)]));
        let files = Files::new(&input, &contents);
        let budget = Budget { chunk: 64, tile };
        stream_of_all(&files, &self.tensor(), &source, target, budget).unwrap().read_all().unwrap()
    }
}

fn views() -> impl Strategy<Value = View> {
    let axes =
        prop::collection::vec((1u64..6, prop::sample::select(vec![0u64, 1, 2, 3, 5, 12, 40, 3000])), 1..5);
    let orders = axes.prop_flat_map(|axes| {
        let order: Vec<usize> = (0..axes.len()).collect();
        (Just(axes), Just(order.clone()).prop_shuffle(), Just(order).prop_shuffle(), any::<bool>())
    });
    orders.prop_map(|(axes, stored, wanted, is_big)| {
        let (shape, strides) = axes.into_iter().unzip();
        let endian = if is_big { Endian::Big } else { Endian::Little };
        View { shape, strides, stored, wanted, endian }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn a_view_has_the_elements_at_its_strides(view in views(), tile in 2u64..300) {
        let target = Encoding::row_major(&view.tensor()).with_order(view.wanted.clone());
        prop_assert_eq!(view.read(&target, tile), bytes_of(&view.elements(&view.wanted), Endian::Little));
    }

    #[test]
    fn a_view_is_split_into_the_parts_that_a_target_stores(view in views(), tile in 2u64..300) {
        // The first axis becomes two, of which the faster one has two indexes; the others stay as they are.
        let mut split = View { strides: view.strides.clone(), shape: view.shape.clone(), ..view };
        split.shape[0] *= 2;
        let target = Encoding::row_major(&split.tensor())
            .with_tiles(vec![Tile { axis: 0, lens: vec![2] }])
            .with_order(AxisOrder::row_major(split.shape.len() + 1));
        let order: Vec<usize> = (0..split.shape.len()).collect();
        prop_assert_eq!(split.read(&target, tile), bytes_of(&split.elements(&order), Endian::Little));
    }
}

#[test]
#[cfg_attr(miri, ignore = "a megabyte")]
fn spans_longer_than_a_read_are_read_in_parts() {
    for (shape, strides) in [
        // Every third element of a long row; rows that are repeated; elements far from each other; windows that overlap.
        (vec![300_000], vec![3]),
        (vec![3, 300_000], vec![0, 1]),
        (vec![40, 2], vec![9000, 4500]),
        (vec![200_000, 3], vec![1, 1]),
        (vec![2, 150_000, 2], vec![0, 3, 1]),
    ] {
        let order: Vec<usize> = (0..shape.len()).collect();
        let view =
            View { shape, strides, stored: order.clone(), wanted: order.clone(), endian: Endian::Little };
        let target = Encoding::row_major(&view.tensor());
        let expected = bytes_of(&view.elements(&order), Endian::Little);
        assert!(view.read(&target, 4 << 20) == expected, "{view:?}");
        assert!(view.read(&target, 100_000) == expected, "{view:?} in tiles");
    }
}

#[test]
fn strides_that_do_not_fit_their_extent_are_refused() {
    let view = |strides: &[u64]| View {
        shape: vec![2, 3],
        strides: strides.to_vec(),
        stored: vec![0, 1],
        wanted: vec![0, 1],
        endian: Endian::Little,
    };
    let (_, good) = view(&[7, 2]).stored();
    let check = |placement: Placement| {
        let checkpoint = Checkpoint { tensors: vec![view(&[7, 2]).tensor()], ..Checkpoint::default() };
        let contents = Contents::default().with_files(vec!["f".into()]).with_checkpoint(checkpoint);
        contents.with_placements(vec![placement]).check(&Limits::default()).map_err(|error| error.kind())
    };
    assert_eq!(check(good.clone()), Ok(()));
    let window = |strides: &[u64]| view(&[7, 2]).window().with_strides(strides.to_vec());
    for strides in [&[7][..], &[7, 3], &[u64::MAX, 2]] {
        assert_eq!(check(good.clone().with_window(window(strides))), Err(Kind::Corrupt), "{strides:?}");
    }
    let twice = [good.extents.to_vec(), good.extents.to_vec()].concat();
    assert_eq!(check(good.with_extents(twice)), Err(Kind::Corrupt));
}
