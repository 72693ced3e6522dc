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

using Place = int32_t;
using Row = std::vector<Place>;

template <class Kept>
class Places {
 public:
  // `width` numbers a place: (layers, 2, heads * d_head).
  explicit Places(int width)
      // One line more than needed: at a distance of a power of two, places would fall on each
      // other in the processor's cache.
      : stride_(rounded_up(width * static_cast<int>(sizeof(Kept)), LINE_BYTES) / sizeof(Kept) +
                LINE_BYTES / sizeof(Kept)) {}

  Kept* at(Place place) const {
    return blocks_[place / BLOCK].data() + static_cast<size_t>(place % BLOCK) * stride_;
  }

  // A place that none of `rows` lists.
  Place fresh(const std::vector<Row>& rows) {
    if (free_.empty()) collect(rows);
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }

  size_t bytes() const { return blocks_.size() * BLOCK * stride_ * sizeof(Kept); }

 private:
  void collect(const std::vector<Row>& rows) {
    std::vector<bool> listed(blocks_.size() * BLOCK);
    for (const Row& row : rows)
      for (const Place place : row) listed[place] = true;
    for (Place place = static_cast<Place>(listed.size()); place-- > 0;)
      if (!listed[place]) free_.push_back(place);
    if (free_.size() * 2 > listed.size()) return;  // enough for a while: collecting stays cheap
    const Place first = static_cast<Place>(listed.size());
    blocks_.emplace_back(BLOCK * stride_);
    for (Place place = BLOCK; place-- > 0;) free_.push_back(first + place);
  }

  static constexpr int BLOCK = 64;  // places
  size_t stride_;
  std::vector<Array<Kept>> blocks_;
  std::vector<Place> free_;
};

}  // namespace jumok
