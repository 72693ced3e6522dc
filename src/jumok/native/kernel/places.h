// What a request remembers: for each place (a token that was read or written) the keys and values
// of every layer.
//
// A row being written is a list of places. A beam that splits copies the list, not the numbers;
// places that no row lists any more are found and used again when room runs out.

#pragma once

#include <cstdint>
#include <vector>

#include "array.h"

namespace jumok {

using Place = uint32_t;
using Row = std::vector<Place>;

template <class Kept>
class Places {
 public:
  // A place holds `width` numbers for each of `layers` layers.
  Places(int layers, int width) : layers_(layers), width_(width) {}

  Kept* at(Place place, int layer) const {
    return blocks_[place / BLOCK].data() + (layer * BLOCK + place % BLOCK) * width_;
  }

  // A place that none of `rows` lists.
  Place fresh(const std::vector<Row>& rows) {
    if (free_.empty()) collect(rows);
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }

 private:
  void collect(const std::vector<Row>& rows) {
    std::vector<bool> listed(blocks_.size() * BLOCK);
    for (const Row& row : rows)
      for (const Place place : row) listed[place] = true;
    for (Place place = blocks_.size() * BLOCK; place-- > 0;)
      if (!listed[place]) free_.push_back(place);
    if (free_.size() * 2 > listed.size()) return;  // enough for a while: collecting stays cheap
    blocks_.emplace_back(layers_ * BLOCK * width_);
    for (Place i = BLOCK; i-- > 0;) free_.push_back(listed.size() + i);
  }

  static constexpr size_t BLOCK = 256;  // places
  size_t layers_, width_;
  std::vector<Array<Kept>> blocks_;
  std::vector<Place> free_;
};

}  // namespace jumok
